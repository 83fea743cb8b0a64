// The norm of a whole gradient on a GPU, and the factor that clips it:
//
//     scale = limit / (norm + 1e-6) where the norm is above the limit, 1 elsewhere
//
// Both stay on the GPU for the optimiser's step. A gradient that is not finite has finite = 0, and
// the steps then change nothing.
#pragma once

#include <cstdint>

#include "tensor/cuda/gpu.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

struct GradientNorm {
  double norm = 0;     // before clipping
  float scale = 1;     // what the gradient is to be multiplied by
  int32_t finite = 1;  // 0: the norm is infinite or NaN
};

// For gradients of `count` floats (gaps between tensors are zero). Sums are in double, in an order
// that depends on the count alone.
class GradientClip {
 public:
  GradientClip(const Gpu& gpu, int64_t count);
  ~GradientClip();

  void measure(const float* gradient, double limit, const Gpu& gpu);  // limit 0: never clip
  const GradientNorm* on_gpu() const { return norm_.data(); }
  // Of the last measure: the host waits for it, not for what was enqueued after it.
  GradientNorm result() const;

 private:
  int64_t count_;
  GpuTensor<double> partial_;
  GpuTensor<GradientNorm> norm_;
  GradientNorm* on_host_ = nullptr;  // pinned
  GpuEvent measured_;
};

}  // namespace deltasane::kernel::cuda
