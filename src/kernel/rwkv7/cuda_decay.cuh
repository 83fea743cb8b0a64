// The decay of a channel. For .cu files.
#pragma once

namespace deltasane::kernel::cuda {

inline constexpr float decay_rate = 0.60653065971263342f;  // exp(-1/2)

// exp(-decay_rate gate), 0 <= gate <= 1: 1 + t (1 + t/2 + ...) by a polynomial within 6e-10 before
// rounding, so that the error is that of the last rounding but for very fast decays, and goes
// neither up nor down. A state is multiplied by thousands of these: with an exponential of a
// hundredth of a rounding's bias its error would be that of the decays.
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
