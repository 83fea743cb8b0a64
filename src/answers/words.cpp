#include "answers/words.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/cat.h"

namespace deltasane::answers {

namespace {

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = char(c + 32);
  return text;
}

bool is_letter_like(const Node& node) {
  return node.kind == Kind::symbol || node.kind == Kind::euler;
}

bool is_product_of_symbols(const Node& node) {
  return node.kind == Kind::multiply &&
         std::all_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return is_letter_like(*part); });
}

// $abc$ is read as a product of three symbols; its letters together may be a word.
std::string spelled(const Node& product) {
  std::string word;
  for (const Tree& part : product.parts)
    word += part->kind == Kind::euler ? "e" : lower(part->text);
  return word;
}

std::optional<int64_t> small_integer(const Node& node) {
  int64_t value = 0;
  if (node.kind != Kind::integer || node.text.size() > 18) return {};
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return node.negative ? -value : value;
}

// How a number prints where a symbol of that name can be meant: \text{18}, \text{1/8}.
std::string printed(const Node& number) {
  if (number.kind == Kind::integer) return (number.negative ? "-" : "") + number.text;
  if (number.kind != Kind::fraction) return {};
  const auto above = small_integer(*number.parts[0]), below = small_integer(*number.parts[1]);
  if (!above || !below || *below == 0) return {};
  const int64_t divisor = std::gcd(*above, *below) * (*below < 0 ? -1 : 1);
  const int64_t shown = *above / divisor * (number.negative ? -1 : 1);
  return *below / divisor == 1 ? cat(shown) : cat(shown, "/", *below / divisor);
}

bool same_factors(const Node& a, const Node& b) {
  const auto names = [](const Node& product) {
    std::vector<std::string> all;
    for (const Tree& part : product.parts)
      all.push_back((part->kind == Kind::euler ? "\\e" : part->text) + (part->real ? "" : "?"));
    std::sort(all.begin(), all.end());
    return all;
  };
  return names(a) == names(b);
}

bool same_name(const Node& a, const Node& b) {
  const auto folded = [](const std::string& name) { return name.size() > 1 ? lower(name) : name; };
  return folded(a.text) == folded(b.text);
}

}  // namespace

std::optional<bool> compare_words(const Node& gold, const Node& prediction) {
  const bool products = is_product_of_symbols(gold) && is_product_of_symbols(prediction);
  if (products) return same_factors(gold, prediction);
  if (gold.kind != Kind::symbol && prediction.kind != Kind::symbol) {
    const bool words = is_product_of_symbols(gold) || is_product_of_symbols(prediction);
    if (words && (is_number(gold) || is_number(prediction))) return false;
    return {};
  }
  const Node& symbol = gold.kind == Kind::symbol ? gold : prediction;
  const Node& other = gold.kind == Kind::symbol ? prediction : gold;
  if (other.kind == Kind::symbol) return same_name(gold, prediction);
  if (other.kind == Kind::euler) return symbol.text == "e";
  if (is_product_of_symbols(other)) return lower(symbol.text) == spelled(other);
  if (is_number(other) || is_percent_of(other, is_number)) return symbol.text == printed(other);
  return {};
}

}  // namespace deltasane::answers
