#include "answers/algebra/real.h"

#include <algorithm>
#include <cmath>

namespace deltasane::answers {

Real unknown_real() {
  Real result;
  mpfr_set_nan(result.raw());
  return result;
}

Real bounded(Real value) {
  constexpr long largest_exponent = 1L << 22;
  if (!value.is_finite() || value.is_zero()) return value.is_finite() ? value : unknown_real();
  const long exponent = value.exponent();
  if (exponent > largest_exponent || exponent < -largest_exponent) return unknown_real();
  return value;
}

Real operator+(const Real& a, const Real& b) {
  Real result;
  mpfr_add(result.raw(), a.raw(), b.raw(), MPFR_RNDN);
  return result;
}

Real operator-(const Real& a, const Real& b) {
  Real result;
  mpfr_sub(result.raw(), a.raw(), b.raw(), MPFR_RNDN);
  return result;
}

Real operator*(const Real& a, const Real& b) {
  Real result;
  mpfr_mul(result.raw(), a.raw(), b.raw(), MPFR_RNDN);
  return bounded(std::move(result));
}

Real operator/(const Real& a, const Real& b) {
  if (b.is_zero()) return unknown_real();
  Real result;
  mpfr_div(result.raw(), a.raw(), b.raw(), MPFR_RNDN);
  return bounded(std::move(result));
}

Real operator-(const Real& a) {
  Real result;
  mpfr_neg(result.raw(), a.raw(), MPFR_RNDN);
  return result;
}

Real absolute(const Real& a) {
  Real result;
  mpfr_abs(result.raw(), a.raw(), MPFR_RNDN);
  return result;
}

Real pi_real() {
  Real result;
  mpfr_const_pi(result.raw(), MPFR_RNDN);
  return result;
}

Complex unknown_complex() { return {unknown_real(), unknown_real()}; }

Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
Complex operator-(const Complex& a) { return {-a.re, -a.im}; }

Complex operator*(const Complex& a, const Complex& b) {
  if (a.is_real() && b.is_real()) return a.re * b.re;
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

Complex operator/(const Complex& a, const Complex& b) {
  if (b.is_real()) return {a.re / b.re, a.im.is_zero() ? Real() : a.im / b.re};
  const Real norm = b.re * b.re + b.im * b.im;
  return {(a.re * b.re + a.im * b.im) / norm, (a.im * b.re - a.re * b.im) / norm};
}

Real magnitude(const Complex& a) {
  Real result;
  mpfr_hypot(result.raw(), a.re.raw(), a.im.raw(), MPFR_RNDN);
  return result;
}

bool nearly_equal(const Complex& a, const Complex& b) {
  constexpr long lost_bits = 150;
  if (!a.is_known() || !b.is_known()) return false;
  const long scale =
      std::max({a.re.exponent(), a.im.exponent(), b.re.exponent(), b.im.exponent(), 1L});
  const Complex difference = a - b;
  return difference.re.exponent() < scale - lost_bits &&
         difference.im.exponent() < scale - lost_bits;
}

bool equal_to_digits(const Complex& a, const Complex& b, int digits) {
  if (!a.is_known() || !b.is_known()) return false;
  const long bits = std::lround(double(digits + 1) * 3.3219280948873626);
  const Complex difference = a - b;
  return difference.re.exponent() < -bits && difference.im.exponent() < -bits;
}

}  // namespace deltasane::answers
