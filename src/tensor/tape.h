// For tests: a number that records how it was computed, for gradients of definitions by reverse-mode
// automatic differentiation. No derivative of a model is written by hand.
//
//     Tape<double> tape;
//     Recorded<double> x = tape.variable(3), y = x * exp(x);
//     tape.derivatives(y)[x.node] is dy/dx
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <vector>

namespace deltasane {

template <class Real>
class Tape;

template <class Real>
struct Recorded {
  Real value = 0;
  Tape<Real>* tape = nullptr;  // null: a constant
  int32_t node = -1;

  Recorded() = default;
  Recorded(Real constant) : value(constant) {}  // implicit, as a number's conversions are
  Recorded(Real of, Tape<Real>* on, int32_t number) : value(of), tape(on), node(number) {}

  friend Recorded operator+(const Recorded& a, const Recorded& b) {
    return record(a.value + b.value, a, 1, b, 1);
  }
  friend Recorded operator-(const Recorded& a, const Recorded& b) {
    return record(a.value - b.value, a, 1, b, -1);
  }
  friend Recorded operator*(const Recorded& a, const Recorded& b) {
    return record(a.value * b.value, a, b.value, b, a.value);
  }
  friend Recorded operator/(const Recorded& a, const Recorded& b) {
    return record(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
  }
  friend Recorded operator-(const Recorded& a) { return record(-a.value, a, -1); }
  Recorded& operator+=(const Recorded& b) { return *this = *this + b; }
  Recorded& operator-=(const Recorded& b) { return *this = *this - b; }
  Recorded& operator*=(const Recorded& b) { return *this = *this * b; }
  Recorded& operator/=(const Recorded& b) { return *this = *this / b; }

  friend Recorded exp(const Recorded& a) {
    const Real y = std::exp(a.value);
    return record(y, a, y);
  }
  friend Recorded log(const Recorded& a) { return record(std::log(a.value), a, 1 / a.value); }
  friend Recorded log1p(const Recorded& a) {
    return record(std::log1p(a.value), a, 1 / (1 + a.value));
  }
  friend Recorded sqrt(const Recorded& a) {
    const Real y = std::sqrt(a.value);
    return record(y, a, 1 / (2 * y));
  }
  friend Recorded tanh(const Recorded& a) {
    const Real y = std::tanh(a.value);
    return record(y, a, 1 - y * y);
  }

  friend bool operator==(const Recorded& a, const Recorded& b) { return a.value == b.value; }
  friend std::partial_ordering operator<=>(const Recorded& a, const Recorded& b) {
    return a.value <=> b.value;
  }

 private:
  static Recorded record(Real value, const Recorded& a, Real da, const Recorded& b = {},
                         Real db = 0) {
    Tape<Real>* const tape = a.tape ? a.tape : b.tape;
    return tape ? tape->add(value, {a.node, b.node, da, db}) : Recorded(value);
  }
};

template <class Real>
class Tape {
 public:
  struct Node {
    int32_t a, b;  // what it was computed from; -1: a constant
    Real da, db;
  };
  Recorded<Real> variable(Real value) { return add(value, {-1, -1, 0, 0}); }
  Recorded<Real> add(Real value, const Node& node) {
    nodes_.push_back(node);
    return {value, this, int32_t(nodes_.size()) - 1};
  }
  // Of y, with respect to every number on the tape.
  std::vector<Real> derivatives(const Recorded<Real>& y) const {
    std::vector<Real> d(nodes_.size());
    d[size_t(y.node)] = 1;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      if (node.a >= 0) d[size_t(node.a)] += d[i] * node.da;
      if (node.b >= 0) d[size_t(node.b)] += d[i] * node.db;
    }
    return d;
  }

 private:
  std::vector<Node> nodes_;
};

}  // namespace deltasane
