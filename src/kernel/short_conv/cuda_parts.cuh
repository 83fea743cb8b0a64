// Where a channel of a row lies in matrices side by side. For .cu files.
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

template <class Real>
void expect_places(const ShortConvPart<Real> (&parts)[3], int64_t channels) {
  require(parts[0].channels + parts[1].channels + parts[2].channels == channels,
          "short_conv: expected a place for every channel");
}

}  // namespace deltasane::kernel::cuda
