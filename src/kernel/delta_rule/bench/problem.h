// A random case of the operator that owns its tensors: for its checks and its benchmark.
//
// Inputs have the range of a model's: kappa of unit length, a = -kappa, b = kappa * rate, decays in
// (0.545, 1), k of unit length for the rules that need it. Outputs start as NaN, so that missing
// writes are detected. The same seed gives the same numbers in float and double.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/delta_rule/delta_rule.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

struct ProblemShape {
  Rule rule = Rule::generalized;
  int64_t batch = 1, time = 1, heads = 1, values = 64, keys = 64;
  double tau_low = 1.4, tau_high = 1.6;  // both 0: no SANE
  int64_t position = 0;                  // of the first sequence
  int64_t stagger = 5;                   // added to the position of each next sequence
  bool padding = false;                  // some tokens are padding, some chunks are not neutralized
  int64_t chunk = 16;
  double state_scale = 1;  // of the initial state's entries
};

template <class Real>
class Problem {
 public:
  Problem(const ProblemShape& shape, uint64_t seed);
  template <class Other>
  Problem<Other> in() const;  // the same case in another precision; outputs are NaN again

  // The tokens [from, from + count), starting from `state`.
  DeltaRule<Real> op() { return op(0, shape.time, initial.view()); }
  DeltaRule<Real> op(int64_t from, int64_t count, View<const Real> state);
  DeltaRuleGradient<Real> gradient();
  std::vector<std::pair<const char*, Tensor<Real>*>> outputs();

  ProblemShape shape{};
  Tensor<Real> r, w, k, v, a, b, beta, tau, initial, dy, dfinal;
  Tensor<uint8_t> neutralize, present;
  Tensor<int64_t> position, later_position;
  Tensor<Real> y, final_state, dr, dw, dk, dv, da, db, dbeta, dtau, dinitial;

 private:
  template <class>
  friend class Problem;
  Problem() = default;
  void make_outputs();
};

}  // namespace deltasane::kernel
