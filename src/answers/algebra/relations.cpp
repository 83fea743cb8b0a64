#include <algorithm>

#include "answers/algebra/exact.h"
#include "answers/algebra/judge.h"
#include "base/random.h"

namespace deltasane::answers {

namespace {

bool is_zero(const Node& node) {
  const auto value = exact_value(node);
  return value && *value == 0;
}

Tree difference(const Tree& left, const Tree& right) {
  if (is_zero(*right)) return left;
  return is_zero(*left) ? negate(right) : make(Kind::add, {left, negate(right)});
}

std::string_view flipped(std::string_view sign) {
  if (sign == "<") return ">";
  if (sign == "<=") return ">=";
  if (sign == ">") return "<";
  if (sign == ">=") return "<=";
  return sign == "=" ? "=" : "";
}

bool has_difference(const Node& relation) {
  return std::all_of(relation.parts.begin(), relation.parts.end(), [](const Tree& side) {
    return !is_set(*side) && side->kind != Kind::tuple && !is_relation(*side);
  });
}

// A root of `function` in one variable near a random start, by the secant method.
std::optional<Complex> find_root(const Node& function, const std::string& variable, int trial,
                                 uint64_t start, Work& work) {
  constexpr int max_steps = 60;
  Random random(start, uint64_t(trial));
  const auto value_at = [&](const Complex& x) {
    Evaluator evaluate(trial, work);
    evaluate.assign(variable, x);
    const Value value = evaluate(function);
    return value.is_number() ? value.cells[0] : unknown_complex();
  };
  Complex x0(Real(random.uniform(-2, 2)), Real(random.uniform(-1, 1)));
  Complex x1 = x0 + Complex(Real(random.uniform(0.1, 0.3)), Real(random.uniform(0.1, 0.3)));
  Complex f0 = value_at(x0), f1 = value_at(x1);
  for (int step = 0; step < max_steps; ++step) {
    if (!f0.is_known() || !f1.is_known()) return {};
    if (nearly_equal(f1, Complex()) || nearly_equal(x0, x1)) return x1;
    const Complex change = f1 - f0;
    if (change.is_zero()) return {};
    const Complex next = x1 - f1 * (x1 - x0) / change;
    x0 = std::move(x1);
    f0 = std::move(f1);
    x1 = next;
    f1 = value_at(x1);
  }
  return {};
}

bool vanishes(const Node& function, const std::string& variable, int trial, const Complex& x,
              Work& work) {
  Evaluator evaluate(trial, work);
  evaluate.assign(variable, x);
  const Value value = evaluate(function);
  constexpr int digits = 20;  // a root is found to fewer digits than a value
  return value.is_number() && equal_to_digits(value.cells[0], Complex(), digits);
}

// Equations that the reference finds no solutions for; it takes any two of them for the same.
bool without_solutions(const Tree& equation, const Node& difference, Work& work) {
  const Node& right = *equation->parts[1];
  const Symbols variables = free_symbols(difference);
  if (difference.is_matrix) return right.kind != Kind::matrix && variables.size() > 1;
  if (variables.empty()) return true;
  const Value first = Evaluator(0, work)(difference);
  if (!is_known(first)) return false;
  if (nearly_equal(first, Evaluator(1, work)(difference)) &&
      nearly_equal(first, Evaluator(2, work)(difference)))
    return true;
  if (variables.size() > 1) return false;
  const auto solutions = solution_pieces(equation);
  return solutions && solutions->empty();
}

enum class Shared { all, some_missing, unknown };

// Whether the roots of `of` that can be found are also roots of `in`.
Shared roots_shared(const Node& of, const Node& in, const std::string& variable, int trial,
                    Work& work) {
  constexpr uint64_t starts = 5;
  int found = 0;
  for (uint64_t start = 0; start < starts; ++start) {
    const auto root = find_root(of, variable, trial, start, work);
    if (work.left < 0) return Shared::unknown;
    if (!root) continue;
    ++found;
    if (!vanishes(in, variable, trial, *root, work)) return Shared::some_missing;
  }
  return found > 0 ? Shared::all : Shared::unknown;
}

}  // namespace

bool Judge::same_relation(const Tree& gold, const Tree& prediction) {
  if (gold->kind == Kind::chain && prediction->kind == Kind::chain) {
    if (gold->parts.size() != prediction->parts.size()) return false;
    for (size_t i = 0; i < gold->parts.size(); ++i)
      if (!same_relation(gold->parts[i], prediction->parts[i])) return false;
    return true;
  }
  if (gold->kind != Kind::relation || prediction->kind != Kind::relation) return false;
  if (!has_difference(*gold) || !has_difference(*prediction)) return identical(*gold, *prediction);
  const Tree ours = difference(gold->parts[0], gold->parts[1]);
  const Tree theirs = difference(prediction->parts[0], prediction->parts[1]);
  if (gold->text == prediction->text && same(ours, theirs)) return true;
  if (flipped(gold->text) == prediction->text &&
      same(ours, difference(prediction->parts[1], prediction->parts[0])))
    return true;
  if (gold->text != "=" || prediction->text != "=") return false;
  if (without_solutions(gold, *ours, work_)) return without_solutions(prediction, *theirs, work_);
  return same_solutions(*ours, *theirs);
}

// Two equations in several variables are the same if they hold for the same values. In a single
// variable the reference asks for the same difference of both sides.
bool Judge::same_solutions(const Node& gold, const Node& prediction) {
  const Symbols variables = free_symbols(gold);
  if (variables.size() < 2 || variables != free_symbols(prediction)) return false;
  for (const std::string& variable : variables) {
    Shared shared = Shared::unknown;
    for (int trial = 0; trial < 2; ++trial) {
      shared = roots_shared(gold, prediction, variable, trial, work_);
      if (shared == Shared::all) shared = roots_shared(prediction, gold, variable, trial, work_);
      if (shared != Shared::all) break;
    }
    if (shared != Shared::unknown) return shared == Shared::all;
  }
  return false;
}

}  // namespace deltasane::answers
