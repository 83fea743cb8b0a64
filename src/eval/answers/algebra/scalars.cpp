#include <algorithm>

#include "eval/answers/algebra/exact.h"
#include "eval/answers/algebra/judge.h"
#include "eval/answers/plain_numbers.h"

namespace deltasane::answers {

namespace {

bool is_decimal(const Node& node) { return node.kind == Kind::decimal; }

bool is_number_or_percent(const Node& node) {
  return is_number(node) || is_percent_of(node, is_number);
}

bool is_decimal_or_percent(const Node& node) {
  return is_decimal(node) || is_percent_of(node, is_decimal);
}

bool holds_infinity(const Node& node) {
  return node.kind == Kind::infinity ||
         std::any_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return holds_infinity(*part); });
}

}  // namespace

bool equal_everywhere(const Node& a, const Node& b) {
  if (is_constant(a) && is_constant(b)) {
    const auto exact_a = exact_value(a), exact_b = exact_value(b);
    if (exact_a && exact_b)
      return contains_decimal(a) || contains_decimal(b) ? floating_value(a) == floating_value(b)
                                                        : *exact_a == *exact_b;
    return nearly_equal(Evaluator(0)(a), Evaluator(0)(b));
  }
  constexpr int trials = 4;
  int compared = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Value x = Evaluator(trial)(a), y = Evaluator(trial)(b);
    const bool known = is_known(x);
    if (known != is_known(y)) return false;
    if (!known) continue;
    if (!nearly_equal(x, y)) return false;
    ++compared;
  }
  return compared > 0;
}

// Numbers by the rules for numbers; false means only that these rules do not make them equal.
bool Judge::same_number(const Node& gold, const Node& prediction) const {
  if (const auto plain = compare_plain_numbers(gold, prediction, options_.float_rounding))
    return *plain;
  if (!is_constant(gold) || !is_constant(prediction)) return false;
  if (!is_number_or_percent(gold) && !is_number_or_percent(prediction))
    return equal_to_digits(evaluate_constant(gold), evaluate_constant(prediction),
                           options_.numeric_precision);
  if (!is_decimal_or_percent(gold) && !is_decimal_or_percent(prediction)) return false;
  const auto a = rounded(gold, options_.float_rounding);
  const auto b = rounded(prediction, options_.float_rounding);
  return a && b && *a == *b;
}

bool Judge::same_matrix(const Node& gold, const Node& prediction) const {
  if (gold.kind != Kind::matrix || prediction.kind != Kind::matrix ||
      gold.rows != prediction.rows || gold.parts.size() != prediction.parts.size())
    return false;
  for (size_t i = 0; i < gold.parts.size(); ++i) {
    const Node &a = *gold.parts[i], &b = *prediction.parts[i];
    if (!identical(a, b) && !same_number(a, b) && !equal_everywhere(a, b)) return false;
  }
  return true;
}

bool Judge::same_scalar(const Node& gold, const Node& prediction) const {
  if (gold.is_matrix != prediction.is_matrix) return false;
  if (gold.is_matrix) return same_matrix(gold, prediction) || equal_everywhere(gold, prediction);
  if (holds_infinity(gold) || holds_infinity(prediction)) return false;
  return same_number(gold, prediction) || equal_everywhere(gold, prediction);
}

}  // namespace deltasane::answers
