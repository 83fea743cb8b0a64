// For tests: a float that is rounded to bf16 after every operation. A definition computed with it has
// the error of plain arithmetic in that type.
#pragma once

#include <cmath>
#include <compare>

#include "base/half.h"

namespace deltasane {

struct RoundedNumber {
  float value = 0;

  RoundedNumber() = default;
  RoundedNumber(float exact) : value(float(bf16(exact))) {}  // implicit, as a number's conversions are
  explicit operator float() const { return value; }

  friend RoundedNumber operator+(RoundedNumber a, RoundedNumber b) { return a.value + b.value; }
  friend RoundedNumber operator-(RoundedNumber a, RoundedNumber b) { return a.value - b.value; }
  friend RoundedNumber operator*(RoundedNumber a, RoundedNumber b) { return a.value * b.value; }
  friend RoundedNumber operator/(RoundedNumber a, RoundedNumber b) { return a.value / b.value; }
  friend RoundedNumber operator-(RoundedNumber a) { return -a.value; }
  RoundedNumber& operator+=(RoundedNumber b) { return *this = *this + b; }
  RoundedNumber& operator-=(RoundedNumber b) { return *this = *this - b; }
  RoundedNumber& operator*=(RoundedNumber b) { return *this = *this * b; }
  RoundedNumber& operator/=(RoundedNumber b) { return *this = *this / b; }

  friend RoundedNumber exp(RoundedNumber a) { return std::exp(a.value); }
  friend RoundedNumber log(RoundedNumber a) { return std::log(a.value); }
  friend RoundedNumber log1p(RoundedNumber a) { return std::log1p(a.value); }
  friend RoundedNumber sqrt(RoundedNumber a) { return std::sqrt(a.value); }
  friend RoundedNumber tanh(RoundedNumber a) { return std::tanh(a.value); }

  friend bool operator==(RoundedNumber a, RoundedNumber b) { return a.value == b.value; }
  friend std::partial_ordering operator<=>(RoundedNumber a, RoundedNumber b) {
    return a.value <=> b.value;
  }
};

}  // namespace deltasane
