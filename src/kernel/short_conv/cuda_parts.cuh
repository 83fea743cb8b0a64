// What the convolution and its gradient share: where a channel of a row lies in matrices side by side,
// and windows of the last inputs. For .cu files.
#pragma once

#include "kernel/cuda/channel_width.cuh"
#include "kernel/short_conv/cuda.h"

namespace deltasane::kernel::cuda {

template <class Real>
__device__ Real* place_in(const ShortConvPart<Real> (&parts)[3], int64_t row, int64_t channel) {
  int part = 0;
  while (channel >= parts[part].channels) channel -= parts[part++].channels;
  return parts[part].y + row * parts[part].channels + channel;
}

// Channels on their way, as they are in memory; zeros where there are none.
template <int width, class Real>
struct Arriving {
  Packed<Real> packed;
  __device__ void load(const Real* from) { packed = Packed<Real>(from); }
  __device__ void unpack(float (&x)[width]) const { packed.unpack(x); }
};
template <class Real>
struct Arriving<1, Real> {
  float one = 0;
  __device__ void load(const Real* from) { one = to_float(*from); }
  __device__ void unpack(float (&x)[1]) const { x[0] = one; }
};

// Taps, the last first, of a thread's channels; zeros where there are fewer than `most`.
template <int width, int most>
__device__ void load_taps(const float* weight, int64_t taps, int64_t channels, int64_t channel,
                          float (&tap)[most][width]) {
#pragma unroll
  for (int far = 0; far < most; ++far) {
#pragma unroll
    for (int k = 0; k < width; ++k) tap[far][k] = 0;
    if (far < taps) load_channels<width>(weight + (taps - 1 - far) * channels + channel, tap[far]);
  }
}
// x: the last inputs, the latest first.
template <int width, int most>
__device__ float sum_of_taps(const float (&tap)[most][width], const float (&x)[most][width],
                             int channel) {
  float sum = 0;
#pragma unroll
  for (int far = most - 1; far >= 0; --far) sum = fmaf(tap[far][channel], x[far][channel], sum);
  return sum;
}

// Calls body.operator()<width, most>() for up to `most` taps. Windows of many taps have a channel each,
// so that they stay in registers.
template <class Body>
void with_taps(bool eight, int64_t taps, const Body& body) {
  constexpr int few_taps = 4, most_taps = 16;
  if (taps < 1 || taps > most_taps)
    fail(Fault::argument, "taps: expected 1 to ", most_taps, ", found ", taps);
  if (taps > few_taps) return body.template operator()<1, most_taps>();
  with_width(eight, [&]<int width>() { body.template operator()<width, few_taps>(); });
}

template <class Real>
void expect_places(const ShortConvPart<Real> (&parts)[3], int64_t channels) {
  require(parts[0].channels + parts[1].channels + parts[2].channels == channels,
          "short_conv: expected a place for every channel");
}

}  // namespace deltasane::kernel::cuda
