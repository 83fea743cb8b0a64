// One token of one head, for a block of 256 threads: four threads per row of the state.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/cuda_lanes.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int head_size = 64, head_threads = 256;

__device__ inline float row_sum(float value) {  // over the four threads of a row
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}
// Over the head's channels, in shared memory; every warp by itself, all get the same.
__device__ inline float head_sum(const float* values) {
  const int lane = int(threadIdx.x) % 32;
  return warp_sum(values[lane] + values[lane + 32]);
}

// Thread t has row t / 4 and the columns 16 p + 4 (t % 4) + [0, 4), p = 0 to 3.
struct HeadRow {
  float4 part[4];

  __device__ static int column(int p) { return 16 * p + 4 * (int(threadIdx.x) % 4); }
  __device__ static int64_t at(int p) { return (threadIdx.x / 4) * head_size + column(p); }
  __device__ void load(const float* memory) {
    for (int p = 0; p < 4; ++p) part[p] = *reinterpret_cast<const float4*>(memory + at(p));
  }
  __device__ void store(float* memory) const {
    for (int p = 0; p < 4; ++p) *reinterpret_cast<float4*>(memory + at(p)) = part[p];
  }
};

// In shared memory, 16-byte aligned.
struct HeadInputs {
  float r[head_size], w[head_size], k[head_size], v[head_size], a[head_size], b[head_size];
};

__device__ inline float dot4(const float4& x, const float4& y) {
  return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
__device__ inline float step_entry(float s, float w, float sa, float b, float v, float k) {
  return s * w + sa * b + v * k;
}

// S <- S diag(w) + (S a) b' + v k', returns (S r) of the thread's row; where tau is above 0,
// S <- tau tanh(S / tau) after that.
__device__ inline float step_head(HeadRow& s, const HeadInputs& in, float tau) {
  const auto four = [](const float* from) { return *reinterpret_cast<const float4*>(from); };
  float sa = 0;
  for (int p = 0; p < 4; ++p) sa += dot4(s.part[p], four(in.a + HeadRow::column(p)));
  sa = row_sum(sa);
  const float v = in.v[threadIdx.x / 4];
  float y = 0;
  for (int p = 0; p < 4; ++p) {
    const int c = HeadRow::column(p);
    const float4 w = four(in.w + c), b = four(in.b + c), k = four(in.k + c);
    float4& e = s.part[p];
    e.x = step_entry(e.x, w.x, sa, b.x, v, k.x), e.y = step_entry(e.y, w.y, sa, b.y, v, k.y);
    e.z = step_entry(e.z, w.z, sa, b.z, v, k.z), e.w = step_entry(e.w, w.w, sa, b.w, v, k.w);
    y += dot4(e, four(in.r + c));
    if (tau > 0) {
      e.x = tau * tanhf(e.x / tau), e.y = tau * tanhf(e.y / tau);
      e.z = tau * tanhf(e.z / tau), e.w = tau * tanhf(e.w / tau);
    }
  }
  return row_sum(y);
}

}  // namespace deltasane::kernel::cuda
