// AdamW (adamw.h) on a GPU, all tensors in one kernel.
//
// Parameters, gradient, m and v are buffers of floats of one layout; a slot is one tensor's part of
// it. g is the gradient times GradientNorm::scale, which stays on the GPU. A step also writes the
// parameters as bf16, for matrix products. A gradient that is not finite changes nothing.
#pragma once

#include <cstdint>
#include <span>

#include "base/half.h"
#include "kernel/adamw/adamw.h"
#include "kernel/gradient_norm/cuda.h"
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

struct AdamwSlot {
  int64_t offset, elements;
  double decay, rate_factor;
};

class Adamw {
 public:
  Adamw(const Gpu& gpu, std::span<const AdamwSlot> slots);

  struct Buffers {
    float* parameters;
    bf16* copy;  // takes the parameters rounded; null: not wanted
    const float* gradient;
    float *first, *second;  // m, v
  };
  void step(const AdamwParams& params, const GradientNorm* norm, const Buffers& buffers,
            const Gpu& gpu) const;

  struct Piece {
    int64_t offset;
    int32_t elements;
    double decay, rate_factor;
  };

 private:
  GpuTensor<Piece> pieces_;
};

}  // namespace deltasane::kernel::cuda
