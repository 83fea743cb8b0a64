// Exact rational values of expressions that have one, and rounding by the reference's rules.
#pragma once

#include <gmpxx.h>

#include <optional>

#include "answers/algebra/real.h"
#include "answers/tree.h"

namespace deltasane::answers {

// None for anything but sums, products and integer powers of numbers, and for huge numbers.
std::optional<mpq_class> exact_value(const Node& node);

// A constant rounded to a number of decimals. Two of these are the same only if all members are.
struct Rounded {
  bool integer;  // it was an integer from the start
  mpq_class value;
  int digits;  // significant digits
  bool operator==(const Rounded&) const = default;
};
std::optional<Rounded> rounded(const Node& constant, int decimals);

// The value in double precision, operation by operation as written. Only where there is an exact
// one.
double floating_value(const Node& node);

bool contains_decimal(const Node& node);
Real to_real(const mpq_class& value);

}  // namespace deltasane::answers
