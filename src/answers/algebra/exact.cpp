#include "answers/algebra/exact.h"

#include <algorithm>
#include <cmath>

#include "answers/algebra/evaluate.h"
#include "answers/plain_numbers.h"

namespace deltasane::answers {

namespace {

constexpr size_t max_bits = 1 << 16;

size_t bits(const mpq_class& value) {
  return mpz_sizeinbase(value.get_num_mpz_t(), 2) + mpz_sizeinbase(value.get_den_mpz_t(), 2);
}

std::optional<mpq_class> whole_power(const mpq_class& base, long exponent) {
  const size_t count = size_t(std::labs(exponent));
  if (count > max_bits || (bits(base) > 2 && bits(base) * count > max_bits)) return {};
  if (exponent < 0 && base == 0) return {};
  mpq_class result;
  mpz_pow_ui(result.get_num_mpz_t(), base.get_num_mpz_t(), count);
  mpz_pow_ui(result.get_den_mpz_t(), base.get_den_mpz_t(), count);
  return exponent < 0 ? mpq_class(1) / result : result;
}

std::optional<mpq_class> decimal_value(const std::string& text) {
  const size_t sign = text.find_first_of("eE");
  std::string digits = text.substr(0, sign);
  long scale = 0;
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    scale = -long(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  if (sign != std::string::npos) scale += std::strtol(text.c_str() + sign + 1, nullptr, 10);
  if (digits.empty() || std::labs(scale) > 10000) return {};
  const auto power = whole_power(10, scale);
  if (!power) return {};
  return mpq_class(mpz_class(digits, 10)) * *power;
}

std::optional<mpq_class> combined(const Node& node) {
  mpq_class total = node.kind == Kind::add ? 0 : 1;
  for (const Tree& part : node.parts) {
    const auto value = exact_value(*part);
    if (!value) return {};
    if (node.kind == Kind::add)
      total += *value;
    else
      total *= *value;
    if (bits(total) > max_bits) return {};
  }
  return total;
}

std::optional<mpq_class> unsigned_value(const Node& node) {
  switch (node.kind) {
    case Kind::integer:
      return mpq_class(mpz_class(node.text, 10));
    case Kind::decimal:
      return decimal_value(node.text);
    case Kind::fraction: {
      const auto above = exact_value(*node.parts[0]), below = exact_value(*node.parts[1]);
      if (!above || !below || *below == 0) return {};
      return mpq_class(*above / *below);
    }
    case Kind::mixed: {
      const auto whole = exact_value(*node.parts[0]), part = exact_value(*node.parts[1]);
      if (!whole || !part) return {};
      return *whole < 0 ? mpq_class(*whole - *part) : mpq_class(*whole + *part);
    }
    case Kind::add:
    case Kind::multiply:
      return combined(node);
    case Kind::power: {
      const auto exponent = exact_value(*node.parts[1]);
      if (!exponent || exponent->get_den() != 1 || !exponent->get_num().fits_slong_p()) return {};
      const auto base = exact_value(*node.parts[0]);
      return base ? whole_power(*base, exponent->get_num().get_si()) : std::nullopt;
    }
    default:
      return {};
  }
}

// 10^(m-1) <= |value| < 10^m
int magnitude(const mpq_class& value) {
  const double estimate = (double(mpz_sizeinbase(value.get_num_mpz_t(), 2)) -
                           double(mpz_sizeinbase(value.get_den_mpz_t(), 2))) *
                          0.30102999566398120;
  int digits = int(std::floor(estimate)) - 1;
  const mpq_class size = abs(value);
  while (*whole_power(10, digits) <= size) ++digits;
  return digits;
}

mpq_class rounded_to(const mpq_class& value, int decimals) {
  const mpq_class scale = *whole_power(10, decimals);
  const mpq_class scaled = value * scale * 2 + 1;
  mpz_class floor;
  mpz_fdiv_q(floor.get_mpz_t(), scaled.get_num_mpz_t(),
             mpz_class(scaled.get_den() * 2).get_mpz_t());
  const bool tie = scaled.get_den() == 1 && mpz_even_p(scaled.get_num_mpz_t());
  if (tie && mpz_odd_p(floor.get_mpz_t())) --floor;
  return mpq_class(floor) / scale;
}

int precision_of(const Node& node) {
  if (node.kind == Kind::decimal) return decimal_precision(node);
  int most = 15;
  for (const Tree& part : node.parts) most = std::max(most, precision_of(*part));
  return most;
}

std::optional<mpq_class> constant_value(const Node& node) {
  if (auto exact = exact_value(node)) return exact;
  Work work;
  const Complex value = evaluate_constant(node, work);
  constexpr long largest_exponent = 4000;
  if (!value.is_known() || !value.is_real() || std::labs(value.re.exponent()) > largest_exponent)
    return {};
  // Cancellation leaves a small error; snap to the nearest integer.
  Real nearest;
  mpfr_rint(nearest.raw(), value.re.raw(), MPFR_RNDN);
  mpq_class result;
  mpfr_get_q(result.get_mpq_t(), nearly_equal(nearest, value) ? nearest.raw() : value.re.raw());
  return result;
}

}  // namespace

std::optional<mpq_class> exact_value(const Node& node) {
  auto value = unsigned_value(node);
  if (value && node.negative) *value = -*value;
  return value;
}

double floating_value(const Node& node) {
  const bool composed =
      node.kind == Kind::add || node.kind == Kind::multiply || node.kind == Kind::power;
  if (!composed || !contains_decimal(node)) {
    const auto value = exact_value(node);
    return value ? to_real(*value).to_double() : NAN;
  }
  double total = floating_value(*node.parts[0]);
  for (size_t i = 1; i < node.parts.size(); ++i) {
    const double next = floating_value(*node.parts[i]);
    total = node.kind == Kind::add        ? total + next
            : node.kind == Kind::multiply ? total * next
                                          : std::pow(total, next);
  }
  return total;
}

bool contains_decimal(const Node& node) {
  return node.kind == Kind::decimal ||
         std::any_of(node.parts.begin(), node.parts.end(),
                     [](const Tree& part) { return contains_decimal(*part); });
}

std::optional<Rounded> rounded(const Node& constant, int decimals) {
  const auto value = constant_value(constant);
  if (!value) return {};
  const bool has_decimal = contains_decimal(constant);
  if (!has_decimal && value->get_den() == 1) return Rounded{true, *value, 0};
  if (*value == 0) return Rounded{false, *value, precision_of(constant)};
  const int needed = magnitude(*value) + decimals;
  const int precision = has_decimal ? precision_of(constant) : std::max(15, needed);
  const mpq_class result = rounded_to(*value, decimals);
  if (result.get_den() == 1) return Rounded{false, result, precision};
  return Rounded{false, result, std::max(1, std::min(needed, precision))};
}

Real to_real(const mpq_class& value) {
  Real result;
  mpfr_set_q(result.raw(), value.get_mpq_t(), MPFR_RNDN);
  return bounded(std::move(result));
}

}  // namespace deltasane::answers
