// Gates of channels, and the decay that is made of one. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

inline constexpr float decay_rate = 0.60653065971263342f;  // exp(-1/2)

// exp(t), t = -decay_rate gate, 0 <= gate <= 1: 1 + t (1 + t/2 + ...) by a polynomial within 6e-10
// before rounding, so that it leans to neither side, and but for fast decays is rounded once. A
// state is multiplied by hundreds of decays: with expf, whose errors seem to lean, states of a
// float model had 2.2 times the usual error of plain arithmetic; so they have 0.8 times.
__device__ inline float decay_of(float gate) {
  const float t = -decay_rate * gate;
  float p = fmaf(t, 0.00103376154f, 0.00805858523f);
  p = fmaf(t, p, 0.0415593423f);
  p = fmaf(t, p, 0.166645274f);
  p = fmaf(t, p, 0.499998033f);
  p = fmaf(t, p, 0.99999994f);
  return fmaf(t, p, 1.0f);
}

}  // namespace deltasane::kernel::cuda
