// bf16 mixed precision: what matrix products take is rounded to bf16, to nearest, ties to even.
//
//     y = round(x) round(W)'      dx = round(dy) round(W)      dW += round(dy)' round(x)
//
// Sums, results and gradients are float, and so are the parameters that an update changes (master
// weights) and the optimiser. Everything that is no matrix product takes what it takes in fp32:
// norms, token shift, the decay from its low-rank sum on, the recurrence and its state, the loss.
// tau's own product, x_tau w_tau, is not rounded either.
#pragma once

#include <span>
#include <vector>

#include "base/half.h"
#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane {

enum class Precision { fp32, bf16 };

template <class Real>
Real rounded_to_bf16(Real x) {
  return Real(float(bf16(float(x))));
}

// Rounded copies: of all parameters, and of the two operands of a product.
class Rounding {
 public:
  void take_parameters(std::span<const float> parameters, const kernel::Cpu& cpu);
  std::span<const float> parameters() const { return parameters_; }

  enum Operand : size_t { first, second };
  // Good until the next call for the same operand.
  View<const float> of(View<const float> rows, Operand operand, const kernel::Cpu& cpu);

  uint64_t bytes() const {
    return (parameters_.size() + operands_[first].size() + operands_[second].size()) *
           sizeof(float);
  }

 private:
  std::vector<float> parameters_, operands_[2];
};

}  // namespace deltasane
