// The state of one head in the registers of a block, and its step by one token. A row of the state
// has `lanes` threads, 4 or 8. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernel/cuda/vectorized_row.cuh"

namespace deltasane::rwkv7 {

using namespace kernel::cuda;

inline constexpr int head_size = 64;
template <int lanes>
inline constexpr int head_threads = head_size* lanes;

template <int lanes>
__device__ inline float row_sum(float value) {  // over the threads of a row
#pragma unroll
  for (int step = 1; step < lanes; step *= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}
// Over the head's channels, in shared memory; each warp computes it for itself.
__device__ inline float sum_of_head(const float* values) {
  const int lane = int(threadIdx.x) % 32;
  return warp_sum(values[lane] + values[lane + 32]);
}

// Thread t has row t / lanes and the columns 4 (p lanes + t % lanes) + [0, 4) of each part p.
template <int lanes>
struct HeadRow {
  static constexpr int parts = head_size / 4 / lanes;
  float4 part[parts];

  __device__ static int column(int p) { return 4 * (p * lanes + int(threadIdx.x) % lanes); }
  __device__ static int64_t at(int p) { return (threadIdx.x / lanes) * head_size + column(p); }
  __device__ void load(const float* memory) {
#pragma unroll
    for (int p = 0; p < parts; ++p) part[p] = *reinterpret_cast<const float4*>(memory + at(p));
  }
  __device__ void store(float* memory) const {
#pragma unroll
    for (int p = 0; p < parts; ++p) *reinterpret_cast<float4*>(memory + at(p)) = part[p];
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
template <int lanes>
__device__ inline float step_head(HeadRow<lanes>& s, const HeadInputs& in, float tau) {
  using Row = HeadRow<lanes>;
  const auto four = [](const float* from) { return *reinterpret_cast<const float4*>(from); };
  float sa = 0;
#pragma unroll
  for (int p = 0; p < Row::parts; ++p) sa += dot4(s.part[p], four(in.a + Row::column(p)));
  sa = row_sum<lanes>(sa);
  const float v = in.v[threadIdx.x / lanes];
  float y = 0;
#pragma unroll
  for (int p = 0; p < Row::parts; ++p) {
    const int c = Row::column(p);
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
  return row_sum<lanes>(y);
}

}  // namespace deltasane::rwkv7
