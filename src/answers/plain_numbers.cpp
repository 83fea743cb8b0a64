#include "answers/plain_numbers.h"

#include <algorithm>
#include <charconv>

#include "answers/scan.h"

namespace deltasane::answers {

namespace {

// digits x 10^-scale; digits have no zeros in front
struct Plain {
  bool negative = false;
  std::string digits;
  int scale = 0;
  bool decimal = false;  // written with a point: exact to `precision` digits only
  int precision = 15;
};

void tidy(Plain& number) {
  number.digits.erase(0, std::min(number.digits.find_first_not_of('0'), number.digits.size()));
  if (number.digits.empty()) number.negative = false;
}

std::optional<Plain> read(const Node& node) {
  constexpr int largest_scale = 5000;
  Plain number;
  if (node.kind == Kind::multiply) {
    auto inner = read(*node.parts[0]);
    if (inner) inner->scale += 2;
    return inner;
  }
  if (node.kind != Kind::integer && node.kind != Kind::decimal) return {};
  number.negative = node.negative;
  std::string_view text = node.text;
  const size_t exponent_sign = text.find_first_of("eE");
  if (exponent_sign != npos) {
    std::string_view exponent = text.substr(exponent_sign + 1);
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    int value = 0;
    const auto result = std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
    if (result.ec != std::errc{} || value > largest_scale || value < -largest_scale) return {};
    number.scale = -value;
    text = text.substr(0, exponent_sign);
  }
  const size_t point = text.find('.');
  number.digits = text.substr(0, point);
  if (point != npos) {
    number.digits += text.substr(point + 1);
    number.scale += int(text.size() - point - 1);
  }
  if (number.scale < 0) {
    number.digits.append(size_t(-number.scale), '0');
    number.scale = 0;
  }
  number.decimal = node.kind == Kind::decimal;
  if (number.decimal) number.precision = decimal_precision(node);
  tidy(number);
  return number;
}

bool is_plain(const Node& node) { return node.kind == Kind::integer || node.kind == Kind::decimal; }

bool equal(Plain a, Plain b) {
  if (a.scale < b.scale) std::swap(a, b);
  if (!b.digits.empty()) b.digits.append(size_t(a.scale - b.scale), '0');
  return a.negative == b.negative && a.digits == b.digits;
}

bool is_whole(const Plain& number) {
  const size_t fraction = size_t(std::max(number.scale, 0));
  if (number.digits.empty()) return true;
  return number.digits.size() > fraction &&
         number.digits.find_last_not_of('0') < number.digits.size() - fraction;
}

// The number with `decimals` digits behind the point, ties to even.
Plain rounded(Plain number, int decimals) {
  const int cut = number.scale - decimals;
  if (cut <= 0) return number;
  std::string& digits = number.digits;
  if (digits.size() < size_t(cut)) digits.insert(0, size_t(cut) - digits.size(), '0');
  const std::string tail = digits.substr(digits.size() - size_t(cut));
  digits.resize(digits.size() - size_t(cut));
  number.scale = decimals;
  const bool exactly_half = tail[0] == '5' && tail.find_first_not_of('0', 1) == std::string::npos;
  const bool odd = !digits.empty() && (digits.back() - '0') % 2 == 1;
  if (tail[0] > '5' || (tail[0] == '5' && (!exactly_half || odd))) {
    size_t at = digits.size();
    while (at > 0 && digits[at - 1] == '9') digits[--at] = '0';
    if (at > 0)
      ++digits[at - 1];
    else
      digits.insert(0, 1, '1');
  }
  tidy(number);
  return number;
}

int magnitude(const Plain& number) { return int(number.digits.size()) - number.scale; }

// Digits that the rounded number keeps; two numbers are equal only if they keep as many.
int kept_digits(const Plain& number, const Plain& round, int decimals) {
  const int precision =
      number.decimal ? number.precision : std::max(15, magnitude(number) + decimals);
  if (is_whole(round)) return precision;
  return std::max(1, std::min(magnitude(number) + decimals, precision));
}

}  // namespace

int decimal_precision(const Node& decimal) {
  std::string_view text = decimal.text;
  text = text.substr(0, text.find_first_of("eE"));
  int digits = 0;
  for (const char c : text)
    if (is_digit(c) && (digits > 0 || c != '0')) ++digits;
  return std::max(15, digits);
}

std::optional<bool> compare_plain_numbers(const Node& a, const Node& b, int rounding) {
  for (const Node* node : {&a, &b})
    if (!is_plain(*node) && !is_percent_of(*node, is_plain)) return {};
  const auto x = read(a), y = read(b);
  if (!x || !y) return {};
  if (equal(*x, *y)) return true;
  if (!x->decimal && !y->decimal) return false;
  // An integer stays an integer when rounded, and no decimal number equals one.
  const bool x_integer = !x->decimal && is_whole(*x), y_integer = !y->decimal && is_whole(*y);
  if (x_integer || y_integer) return false;
  const Plain rounded_x = rounded(*x, rounding), rounded_y = rounded(*y, rounding);
  return equal(rounded_x, rounded_y) &&
         kept_digits(*x, rounded_x, rounding) == kept_digits(*y, rounded_y, rounding);
}

}  // namespace deltasane::answers
