// A 256-bit real number, and a complex number of two. NaN means "unknown": out of range, undefined,
// or too expensive to compute.
#pragma once

#include <gmp.h>
#include <mpfr.h>

#include <utility>

namespace deltasane::answers {

inline constexpr long real_bits = 256;

class Real {
 public:
  Real() {
    mpfr_init2(value_, real_bits);
    mpfr_set_zero(value_, 1);
  }
  Real(double value) : Real() { mpfr_set_d(value_, value, MPFR_RNDN); }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real(Real&& other) noexcept : Real() { mpfr_swap(value_, other.value_); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  Real& operator=(Real&& other) noexcept {
    mpfr_swap(value_, other.value_);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  mpfr_ptr raw() { return value_; }
  mpfr_srcptr raw() const { return value_; }

  bool is_zero() const { return mpfr_zero_p(value_) != 0; }
  bool is_finite() const { return mpfr_number_p(value_) != 0; }
  bool is_unknown() const { return mpfr_nan_p(value_) != 0; }
  bool is_integer() const { return mpfr_integer_p(value_) != 0; }
  int sign() const { return mpfr_sgn(value_); }
  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }
  // Power of two just above the magnitude; very small for zero.
  long exponent() const { return is_zero() ? -(1L << 40) : long(mpfr_get_exp(value_)); }

 private:
  mpfr_t value_;
};

Real unknown_real();
Real bounded(Real value);  // unknown if the exponent is out of range

Real operator+(const Real& a, const Real& b);
Real operator-(const Real& a, const Real& b);
Real operator*(const Real& a, const Real& b);
Real operator/(const Real& a, const Real& b);
Real operator-(const Real& a);
inline bool operator<(const Real& a, const Real& b) { return mpfr_less_p(a.raw(), b.raw()) != 0; }
Real absolute(const Real& a);
Real pi_real();

struct Complex {
  Real re, im;
  Complex() = default;
  Complex(Real real) : re(std::move(real)) {}
  Complex(double real) : re(real) {}
  Complex(Real real, Real imaginary) : re(std::move(real)), im(std::move(imaginary)) {}
  bool is_real() const { return im.is_zero(); }
  bool is_zero() const { return re.is_zero() && im.is_zero(); }
  bool is_known() const { return re.is_finite() && im.is_finite(); }
};

Complex unknown_complex();
Complex operator+(const Complex& a, const Complex& b);
Complex operator-(const Complex& a, const Complex& b);
Complex operator*(const Complex& a, const Complex& b);
Complex operator/(const Complex& a, const Complex& b);
Complex operator-(const Complex& a);
Real magnitude(const Complex& a);

// Equal up to rounding, relative to the larger magnitude (at least 1).
bool nearly_equal(const Complex& a, const Complex& b);
// |a - b| is below 10^-digits, roughly.
bool equal_to_digits(const Complex& a, const Complex& b, int digits);

}  // namespace deltasane::answers
