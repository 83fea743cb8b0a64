// The optimiser of optimizer.h on a GPU, by the same rules (kernel/adamw/cuda.h,
// kernel/muon/cuda.h).
#pragma once

#include <cstdint>

#include "kernel/adamw/cuda.h"
#include "kernel/gradient_norm/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/muon/cuda.h"
#include "tensor/cuda/gpu.h"
#include "train/optimizer/optimizer.h"

namespace deltasane::train {

// On the GPU, each in the layout of the parameters.
struct GpuOptimizerBuffers {
  float* parameters;
  bf16* rounded;  // takes the parameters as bf16 too; null: not wanted
  const float* gradient;
  float *first, *second;
};

class GpuOptimizer {
 public:
  GpuOptimizer(const ParameterLayout& layout, const OptimizerSettings& settings, const Gpu& gpu);

  // Enqueues the norm of the gradient, and the scale that clips it to `limit` (0: never); norm()
  // waits for it.
  void measure(const float* gradient, double limit) { clip_.measure(gradient, limit, gpu_); }
  double norm() const { return clip_.result().norm; }

  // Enqueues a step with the gradient that was measured; it changes nothing where that is not
  // finite. steps: how many there were, with this one.
  void step(const GpuOptimizerBuffers& buffers, double rate, int64_t steps);

 private:
  OptimizerSettings settings_;
  const Gpu& gpu_;
  kernel::cuda::Products products_;
  kernel::cuda::GradientClip clip_;
  kernel::cuda::Adamw adamw_;
  kernel::cuda::Muon muon_;
};

}  // namespace deltasane::train
