#include "answers/algebra/functions.h"

namespace deltasane::answers {

namespace {

using RealFunction = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

Real of(RealFunction function, const Real& x) {
  // Range reduction of a huge argument needs as many bits as its exponent.
  constexpr long largest_exponent = 1000;
  if (!x.is_finite() || x.exponent() > largest_exponent) return unknown_real();
  Real result;
  function(result.raw(), x.raw(), MPFR_RNDN);
  return bounded(std::move(result));
}

Complex sine(const Complex& z) {
  if (z.is_real()) return of(mpfr_sin, z.re);
  return {of(mpfr_sin, z.re) * of(mpfr_cosh, z.im), of(mpfr_cos, z.re) * of(mpfr_sinh, z.im)};
}

Complex cosine(const Complex& z) {
  if (z.is_real()) return of(mpfr_cos, z.re);
  return {of(mpfr_cos, z.re) * of(mpfr_cosh, z.im), -(of(mpfr_sin, z.re) * of(mpfr_sinh, z.im))};
}

const Complex& unit() {
  static const Complex i(Real(0.0), Real(1.0));
  return i;
}

Complex root(const Complex& z) { return power(z, 0.5); }

Complex arc_sine(const Complex& z) {
  if (z.is_real() && !(Real(1.0) < absolute(z.re))) return of(mpfr_asin, z.re);
  return -(unit() * logarithm(unit() * z + root(Complex(1.0) - z * z)));
}

Complex arc_cosine(const Complex& z) {
  if (z.is_real() && !(Real(1.0) < absolute(z.re))) return of(mpfr_acos, z.re);
  return Complex(pi_real() / Real(2.0)) - arc_sine(z);
}

Complex arc_tangent(const Complex& z) {
  if (z.is_real()) return of(mpfr_atan, z.re);
  const Complex turned = unit() * z;
  return (logarithm(Complex(1.0) - turned) - logarithm(Complex(1.0) + turned)) * unit() / 2.0;
}

Complex hyperbolic_sine(const Complex& z) { return (exponential(z) - exponential(-z)) / 2.0; }
Complex hyperbolic_cosine(const Complex& z) { return (exponential(z) + exponential(-z)) / 2.0; }

Complex gamma(const Complex& z) {
  constexpr long largest_exponent = 14;
  if (!z.is_real() || z.re.exponent() > largest_exponent) return unknown_complex();
  return of(mpfr_gamma, z.re);
}

Complex binomial(const Complex& n, const Complex& k) {
  if (!n.is_real() || !k.is_real()) return unknown_complex();
  // n (n-1) ... (n-k+1) / k! for small whole k holds for every n.
  if (k.re.is_integer() && k.re.exponent() <= 8) {
    const long count = mpfr_get_si(k.re.raw(), MPFR_RNDN);
    if (count < 0) return 0.0;
    Complex product = 1.0;
    for (long i = 0; i < count; ++i) product = product * (n - double(i)) / double(i + 1);
    return product;
  }
  return gamma(n + 1.0) / (gamma(k + 1.0) * gamma(n - k + 1.0));
}

Complex rounded(const Complex& z, bool down) {
  if (!z.is_real()) return unknown_complex();
  Real result;
  // An integer up to rounding counts as that integer.
  Real nearest;
  mpfr_rint(nearest.raw(), z.re.raw(), MPFR_RNDN);
  if (nearly_equal(nearest, z)) return nearest;
  mpfr_rint(result.raw(), z.re.raw(), down ? MPFR_RNDD : MPFR_RNDU);
  return result;
}

Complex whole_gcd(std::span<const Complex> arguments, bool least_multiple) {
  mpz_t total, next;
  mpz_inits(total, next, nullptr);
  bool known = !arguments.empty();
  for (size_t i = 0; i < arguments.size() && known; ++i) {
    const Complex& z = arguments[i];
    known = z.is_real() && z.re.is_finite() && z.re.is_integer() && z.re.exponent() < real_bits;
    if (!known) break;
    mpfr_get_z(next, z.re.raw(), MPFR_RNDN);
    if (i == 0)
      mpz_abs(total, next);
    else if (least_multiple)
      mpz_lcm(total, total, next);
    else
      mpz_gcd(total, total, next);
  }
  Real result = unknown_real();
  if (known) mpfr_set_z(result.raw(), total, MPFR_RNDN);
  mpz_clears(total, next, nullptr);
  return bounded(std::move(result));
}

Complex extreme(std::span<const Complex> arguments, bool largest) {
  Complex best = arguments[0];
  for (const Complex& z : arguments) {
    if (!z.is_real()) return unknown_complex();
    if (largest ? best.re < z.re : z.re < best.re) best = z;
  }
  return best;
}

}  // namespace

Complex exponential(const Complex& z) {
  const Real size = of(mpfr_exp, z.re);
  if (z.is_real()) return size;
  return {size * of(mpfr_cos, z.im), size * of(mpfr_sin, z.im)};
}

Complex logarithm(const Complex& z) {
  if (z.is_zero() || !z.is_known()) return unknown_complex();
  Real size, angle;
  mpfr_log(size.raw(), magnitude(z).raw(), MPFR_RNDN);
  if (z.is_real() && z.re.sign() > 0) return size;
  mpfr_atan2(angle.raw(), z.im.raw(), z.re.raw(), MPFR_RNDN);
  return {std::move(size), std::move(angle)};
}

Complex power(const Complex& base, const Complex& exponent) {
  if (!base.is_known() || !exponent.is_known()) return unknown_complex();
  if (exponent.is_zero()) return 1.0;
  if (exponent.is_real() && exponent.re.is_integer() && exponent.re.exponent() <= 20) {
    long n = mpfr_get_si(exponent.re.raw(), MPFR_RNDN);
    const bool inverse = n < 0;
    if (inverse && base.is_zero()) return unknown_complex();
    Complex result = 1.0, square = base;
    for (n = inverse ? -n : n; n > 0; n >>= 1) {
      if (n & 1) result = result * square;
      if (n > 1) square = square * square;
      if (!result.is_known()) return unknown_complex();
    }
    return inverse ? Complex(1.0) / result : result;
  }
  if (base.is_zero())
    return exponent.is_real() && exponent.re.sign() > 0 ? Complex() : unknown_complex();
  return exponential(exponent * logarithm(base));
}

Complex apply_function(std::string_view name, std::span<const Complex> arguments) {
  if (arguments.empty()) return unknown_complex();
  const Complex& z = arguments[0];
  if (name == "log") return logarithm(z) / logarithm(arguments[1]);
  if (name == "sin") return sine(z);
  if (name == "cos") return cosine(z);
  if (name == "tan") return sine(z) / cosine(z);
  if (name == "cot") return cosine(z) / sine(z);
  if (name == "sec") return Complex(1.0) / cosine(z);
  if (name == "csc") return Complex(1.0) / sine(z);
  if (name == "asin") return arc_sine(z);
  if (name == "acos") return arc_cosine(z);
  if (name == "atan") return arc_tangent(z);
  if (name == "acsc") return arc_sine(Complex(1.0) / z);
  if (name == "asec") return arc_cosine(Complex(1.0) / z);
  if (name == "acot") return arc_tangent(Complex(1.0) / z);
  if (name == "sinh") return hyperbolic_sine(z);
  if (name == "cosh") return hyperbolic_cosine(z);
  if (name == "tanh") return hyperbolic_sine(z) / hyperbolic_cosine(z);
  if (name == "asinh") return logarithm(z + root(z * z + 1.0));
  if (name == "acosh") return logarithm(z + root(z - 1.0) * root(z + 1.0));
  if (name == "atanh") return (logarithm(Complex(1.0) + z) - logarithm(Complex(1.0) - z)) / 2.0;
  if (name == "abs") return magnitude(z);
  if (name == "floor") return rounded(z, true);
  if (name == "ceiling") return rounded(z, false);
  if (name == "factorial") return gamma(z + 1.0);
  if (name == "binomial") return binomial(z, arguments[1]);
  if (name == "gcd") return whole_gcd(arguments, false);
  if (name == "lcm") return whole_gcd(arguments, true);
  if (name == "max") return extreme(arguments, true);
  if (name == "min") return extreme(arguments, false);
  if (name == "mod") return z - arguments[1] * rounded(z / arguments[1], true);
  return unknown_complex();
}

}  // namespace deltasane::answers
