// The definition of the activations and of their derivatives, in float or double.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernel/activation/activation.h"
#include "kernel/activation/gated.h"

namespace deltasane::kernel::reference {

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

template <class Real>
Real activate(Activation activation, Real x) {
  switch (activation) {
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::squared_relu:
      return std::max(x, Real(0)) * std::max(x, Real(0));
  }
  return x;
}

template <class Real>
Real gate_of(GateActivation activation, Real x) {
  return activation == GateActivation::silu ? x * sigmoid(x) : sigmoid(x);
}

// d gate_of(x) / dx
template <class Real>
Real gate_derivative(GateActivation activation, Real x) {
  const Real s = sigmoid(x);
  return activation == GateActivation::silu ? s + x * s * (1 - s) : s * (1 - s);
}

// dy/dx from y = activate(x)
template <class Real>
Real derivative(Activation activation, Real y) {
  switch (activation) {
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::squared_relu:
      return 2 * std::sqrt(y);
  }
  return 0;
}

}  // namespace deltasane::kernel::reference
