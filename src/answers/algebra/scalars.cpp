#include <algorithm>

#include "answers/algebra/exact.h"
#include "answers/algebra/judge.h"
#include "answers/plain_numbers.h"

namespace deltasane::answers {

namespace {

bool is_decimal(const Node& node) { return node.kind == Kind::decimal; }

bool is_number_or_percent(const Node& node) {
  return is_number(node) || is_percent_of(node, is_number);
}

bool is_decimal_or_percent(const Node& node) {
  return is_decimal(node) || is_percent_of(node, is_decimal);
}

// A product as its number, computed in double precision as the reference does, and the rest.
struct Split {
  double number = 1;
  Complex rest = 1.0;
};

Split split(const Node& node, Work& work) {
  Split result;
  const bool product = node.kind == Kind::multiply;
  mpq_class exact = 1;
  for (size_t i = 0; i < (product ? node.parts.size() : 1); ++i) {
    const Node& factor = product ? *node.parts[i] : node;
    if (contains_decimal(factor) && exact_value(factor))
      result.number *= floating_value(factor);
    else if (const auto value = exact_value(factor))
      exact *= *value;
    else
      result.rest = result.rest * evaluate_constant(factor, work);
  }
  result.number *= to_real(exact).to_double();
  return result;
}

// Constants with decimal numbers in them.
bool same_decimal_constants(const Node& a, const Node& b, Work& work) {
  if (exact_value(a) && exact_value(b)) return floating_value(a) == floating_value(b);
  const Split x = split(a, work), y = split(b, work);
  if (nearly_equal(x.rest, y.rest)) return x.number == y.number;
  return nearly_equal(evaluate_constant(a, work), evaluate_constant(b, work));
}

bool holds_infinity(const Node& node) {
  return node.kind == Kind::infinity ||
         std::any_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return holds_infinity(*part); });
}

}  // namespace

bool equal_everywhere(const Node& a, const Node& b, Work& work) {
  if (is_constant(a) && is_constant(b)) {
    const auto exact_a = exact_value(a), exact_b = exact_value(b);
    if (!a.is_matrix && !b.is_matrix && (contains_decimal(a) || contains_decimal(b)))
      return same_decimal_constants(a, b, work);
    if (exact_a && exact_b) return *exact_a == *exact_b;
    return nearly_equal(Evaluator(0, work)(a), Evaluator(0, work)(b));
  }
  constexpr int trials = 4;
  int compared = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Value x = Evaluator(trial, work)(a), y = Evaluator(trial, work)(b);
    const bool known = is_known(x);
    if (known != is_known(y)) return false;
    if (!known) continue;
    if (!nearly_equal(x, y)) return false;
    ++compared;
  }
  return compared > 0;
}

// Numbers by the rules for numbers; false means only that these rules do not make them equal.
bool Judge::same_number(const Node& gold, const Node& prediction) {
  if (const auto plain = compare_plain_numbers(gold, prediction, options_.float_rounding))
    return *plain;
  if (!is_constant(gold) || !is_constant(prediction)) return false;
  if (!is_number_or_percent(gold) && !is_number_or_percent(prediction))
    return equal_to_digits(evaluate_constant(gold, work_, Decimals::binary),
                           evaluate_constant(prediction, work_, Decimals::binary),
                           options_.numeric_precision);
  if (!is_decimal_or_percent(gold) && !is_decimal_or_percent(prediction)) return false;
  const auto a = rounded(gold, options_.float_rounding);
  const auto b = rounded(prediction, options_.float_rounding);
  return a && b && *a == *b;
}

bool Judge::same_matrix(const Node& gold, const Node& prediction) {
  if (gold.kind != Kind::matrix || prediction.kind != Kind::matrix ||
      gold.rows != prediction.rows || gold.parts.size() != prediction.parts.size())
    return false;
  for (size_t i = 0; i < gold.parts.size(); ++i) {
    const Node &a = *gold.parts[i], &b = *prediction.parts[i];
    if (!identical(a, b) && !same_number(a, b) && !equal_everywhere(a, b, work_)) return false;
  }
  return true;
}

bool Judge::same_scalar(const Node& gold, const Node& prediction) {
  if (gold.is_matrix != prediction.is_matrix) return false;
  if (gold.is_matrix)
    return same_matrix(gold, prediction) || equal_everywhere(gold, prediction, work_);
  if (holds_infinity(gold) || holds_infinity(prediction)) return false;
  return same_number(gold, prediction) || equal_everywhere(gold, prediction, work_);
}

}  // namespace deltasane::answers
