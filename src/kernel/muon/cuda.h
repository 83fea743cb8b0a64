// Muon (muon.h) on a GPU. Matrices of one shape are batched.
//
// Newton-Schulz works in bf16 with float accumulators, on matrices that were divided by their norm
// in float: x <- (3.4445 I - 4.7750 A + 2.0315 A A) x, A = x x', five times. Its results agree with
// the definition to about two decimal digits, which the update tolerates (Jordan et al. 2024).
//
// Parameters, gradient and momentum are buffers of floats of one layout; a slot is one matrix's
// part of it. g is the gradient times GradientNorm::scale, which stays on the GPU. A step also
// writes the parameters as bf16, for matrix products. A gradient that is not finite changes
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/half.h"
#include "kernel/gradient_norm/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/muon/muon.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct MuonSlot {
  int64_t offset, rows, columns;
  double decay;
};

class Muon {
 public:
  Muon(const Gpu& gpu, std::span<const MuonSlot> slots);
  ~Muon();

  struct Buffers {
    float* parameters;
    bf16* copy;  // takes the parameters rounded; null: not wanted
    const float* gradient;
    float* momentum;
  };
  void step(const MuonParams& params, const GradientNorm* norm, const Buffers& buffers,
            Products& products, const Gpu& gpu);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::kernel::cuda
