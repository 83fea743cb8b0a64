// The updates of optimizer.h on a GPU, by the same rules; muon_reference.h is the definition.
// Muon's Newton-Schulz multiplies in bf16 (kernel/optimizer/cuda.h says what that costs).
#pragma once

#include <cstdint>

#include "kernel/matmul/cuda.h"
#include "kernel/optimizer/cuda.h"
#include "tensor/cuda/gpu.h"
#include "train/optimizer.h"

namespace deltasane::train {

// Rows of numbers on the GPU, in the layout.
struct GpuOptimizerRows {
  float* parameters;
  bf16* rounded;  // takes the parameters in 16 bits too; null: not wanted
  const float* gradient;
  float *first, *second;
};

class GpuOptimizer {
 public:
  GpuOptimizer(const ParameterLayout& layout, const OptimizerSettings& settings, const Gpu& gpu);

  // How long the gradient is, and what it is multiplied with to be no longer than `limit` (0: any).
  // Asked for by measure; the host waits for it in length.
  void measure(const float* gradient, double limit) { clip_.measure(gradient, limit, gpu_); }
  double length() const { return clip_.result().length; }

  // With the gradient that was measured; nothing where it is not finite. steps: how many there
  // were, with this one. Asked for and not waited for.
  void step(const GpuOptimizerRows& rows, double rate, int64_t steps);

 private:
  OptimizerSettings settings_;
  const Gpu& gpu_;
  kernel::cuda::Products products_;
  kernel::cuda::GradientClip clip_;
  kernel::cuda::Adamw adamw_;
  kernel::cuda::Muon muon_;
};

}  // namespace deltasane::train
