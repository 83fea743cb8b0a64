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

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = char(c + 32);
  return text;
}

// $abc$ is read as a product of three symbols; its letters together may be a word.
std::optional<std::string> spelled(const Node& node) {
  if (node.kind != Kind::multiply) return {};
  std::string word;
  for (const Tree& part : node.parts) {
    if (part->kind == Kind::euler)
      word += 'e';
    else if (part->kind == Kind::symbol)
      word += part->text;
    else
      return {};
  }
  return lower(word);
}

// How a number prints, where a symbol of that name can be meant: \text{18}, \text{1/8}.
std::string printed(const Node& node) {
  if (node.kind == Kind::symbol) return node.text;
  if (node.kind != Kind::integer && node.kind != Kind::fraction && node.kind != Kind::mixed)
    return {};
  const auto value = exact_value(node);
  return value ? value->get_str() : std::string();
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

bool Judge::same_symbol(const Node& gold, const Node& prediction) const {
  const auto is_e = [](const Node& node) { return node.kind == Kind::symbol && node.text == "e"; };
  if ((is_e(gold) && prediction.kind == Kind::euler) ||
      (is_e(prediction) && gold.kind == Kind::euler))
    return true;
  if (gold.kind == Kind::symbol)
    if (const auto word = spelled(prediction)) return lower(gold.text) == *word;
  if (prediction.kind == Kind::symbol)
    if (const auto word = spelled(gold)) return lower(prediction.text) == *word;
  if (gold.kind != Kind::symbol || prediction.kind != Kind::symbol)
    return printed(gold) == printed(prediction);
  const auto folded = [](const std::string& name) { return name.size() > 1 ? lower(name) : name; };
  return folded(gold.text) == folded(prediction.text);
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
