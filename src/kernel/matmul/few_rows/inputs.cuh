// The inputs of a product of few rows as float4s, made of what the kernel before has left. Between its end
// and the first product few instructions count, so each way has a kernel of its own, and what does
// not need that kernel is found before. For .cu files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/matmul/few_rows/product.h"
#include "kernel/matmul/few_rows/tile_plan.cuh"

namespace deltasane::kernel::cuda {

// Norms: of a row, whose scale is a factor of the product; of heads that a power of two of a warp's lanes
// stages; of other heads, with their scales found first.
enum class Staging { plain, norm, norm_of_lanes, norm_of_heads, gated };

inline bool lanes_have_heads(int64_t size, int64_t columns) {
  return (size == 32 || size == 64 || size == 128) && columns % 128 == 0;
}
template <class Weight>
Staging staging_of(const FewRowsInput<Weight>& in, int64_t columns) {
  using Kind = FewRowsInputKind;
  if (in.kind == Kind::head_norm)
    return lanes_have_heads(in.size, columns) ? Staging::norm_of_lanes : Staging::norm_of_heads;
  if (in.kind == Kind::norm) return Staging::norm;
  return in.kind == Kind::gated ? Staging::gated : Staging::plain;
}

// Four neighbours.
__device__ inline float4 four(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ inline float4 four(const bf16* at) {
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  return make_float4(__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u),
                     __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}
// Whether four neighbours from a column that is a multiple of four have such an address, in all rows.
template <class Weight>
bool inputs_are_aligned(const FewRowsInput<Weight>& in) {
  const auto floats = [](const float* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  const auto narrow = [](const Weight* at) {
    return reinterpret_cast<uintptr_t>(at) % (4 * sizeof(Weight)) == 0;
  };
  return floats(in.x) && floats(in.weight) && floats(in.gate) && floats(in.gate_bias) &&
         narrow(in.narrow_x) && narrow(in.narrow_gate) && in.step % 4 == 0 && in.gate_step % 4 == 0;
}

__device__ inline float4 scaled(float4 a, float4 b, float scale = 1) {
  return make_float4(a.x * b.x * scale, a.y * b.y * scale, a.z * b.z * scale, a.w * b.w * scale);
}
__device__ inline float4 sum_of(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ inline float squares_of(float4 x) {
  return x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
}
__device__ inline float activated(GateActivation activation, float gate) {
  const float s = sigmoid(gate);
  return activation == GateActivation::silu ? gate * s : s;
}
__device__ inline float4 activated(GateActivation activation, float4 gate) {
  return make_float4(activated(activation, gate.x), activated(activation, gate.y),
                     activated(activation, gate.z), activated(activation, gate.w));
}
// 1 / sqrt(mean x^2 + eps)
struct NormScale {
  float inverse_size = 0, eps = 0;
  __device__ float operator()(float squares) const {
    return rsqrtf(fmaf(squares, inverse_size, eps));
  }
};

// Sums over the block's threads, in two steps: `parts` (N, warps).
template <int N>
__device__ void store_parts(const float (&sums)[N], float* parts) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const float sum = warp_sum(sums[n]);
    if (threadIdx.x % 32 == 0) parts[n * few_warps + threadIdx.x / 32] = sum;
  }
}
__device__ inline float sum_of_parts(const float* parts, int n) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < few_warps; ++w) sum += parts[n * few_warps + w];
  return sum;
}

// The norm's factors of each row's heads: `scales` (N, heads). A warp has a head.
template <class Weight, int N>
__device__ void find_scales(const FewRowsInput<Weight>& in, const NormScale& scale_of, int heads,
                            float* scales) {
  for (int i = int(threadIdx.x) / 32; i < N * heads; i += few_warps) {
    const float* const x = in.x + i / heads * in.step + i % heads * in.size;
    float sum = 0;
    for (int c = int(threadIdx.x) % 32 * 4; c < int(in.size); c += 128)
      sum += squares_of(four(x + c));
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) scales[i] = scale_of(sum);
  }
  __syncthreads();
}

// What four neighbouring inputs are made of: all loads, so that those of many are in flight before the
// first is used.
template <Staging staging, class Weight>
struct RawInputs {
  float4 x, gate, bias, weight;

  __device__ void load(const FewRowsInput<Weight>& in, int n, int c) {
    const float4 none = make_float4(0, 0, 0, 0);
    const int at = n * int(in.step) + c, of_gate = n * int(in.gate_step) + c;
    if constexpr (staging == Staging::gated) {
      x = four(in.narrow_x + at), gate = in.narrow_gate ? four(in.narrow_gate + of_gate) : none;
      return;
    } else {
      x = four(in.x + at);
    }
    if constexpr (staging == Staging::norm) weight = four(in.weight + c);
    if constexpr (staging == Staging::norm_of_lanes || staging == Staging::norm_of_heads) {
      const int size = int(in.size);  // of lanes: a power of two
      weight = four(in.weight + (staging == Staging::norm_of_lanes ? c & (size - 1) : c % size));
      gate = in.gate ? four(in.gate + of_gate) : none;
      bias = in.gate_bias ? four(in.gate_bias + c) : none;
    }
  }
  // scales: of a row's heads.
  __device__ float4 value(const FewRowsInput<Weight>& in, const NormScale& scale_of,
                          const float* scales, int c) const {
    if constexpr (staging == Staging::norm) return scaled(x, weight);
    if constexpr (staging == Staging::norm_of_lanes || staging == Staging::norm_of_heads) {
      float scale = 0;
      if constexpr (staging == Staging::norm_of_lanes) {
        float sum = squares_of(x);
#pragma unroll 1
        for (int far = 1; far < int(in.size) / 4; far *= 2) sum += __shfl_xor_sync(~0u, sum, far);
        scale = scale_of(sum);
      } else {
        scale = scales[c / int(in.size)];
      }
      const float4 normed = scaled(x, weight, scale);
      return in.gate ? scaled(normed, activated(in.activation, sum_of(gate, bias))) : normed;
    }
    if constexpr (staging == Staging::gated)
      if (in.narrow_gate) return scaled(x, activated(in.activation, gate));
    return x;
  }
};

// put(n, i, inputs of the columns from + i and the next three) for all columns of a window, and zeros up to
// `staged` columns. squares: those of x are added, for the norm of a row. A thread loads those of `turns`
// turns of the block at once.
template <Staging staging, int N, int turns, class Weight, class Put>
__device__ void stage_turns(const FewRowsProduct<Weight>& p, const NormScale& scale_of,
                            const float* scales, int heads, int from, int staged,
                            float (&squares)[N], Put&& put) {
  constexpr int step = few_threads * 4;
  const int last = int(p.columns) - 4;
#pragma unroll 1
  for (int first = int(threadIdx.x) * 4; first < staged; first += turns * step) {
    RawInputs<staging, Weight> raw[turns][N];
#pragma unroll
    for (int t = 0; t < turns; ++t)
#pragma unroll
      for (int n = 0; n < N; ++n) raw[t][n].load(p.input, n, min(from + first + t * step, last));
#pragma unroll
    for (int t = 0; t < turns; ++t) {
      const int i = first + t * step, c = from + i;
      if (i >= staged) break;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float4 x = raw[t][n].value(p.input, scale_of, scales + n * heads, min(c, last));
        put(n, i, c <= last ? x : make_float4(0, 0, 0, 0));
        if (staging == Staging::norm && c <= last) squares[n] += squares_of(raw[t][n].x);
      }
    }
  }
}
template <Staging staging, int N, class Weight, class Put>
__device__ void stage_inputs(const FewRowsProduct<Weight>& p, const NormScale& scale_of,
                             const float* scales, int heads, int from, int staged,
                             float (&squares)[N], Put&& put) {
  constexpr bool narrow = staging == Staging::plain || staging == Staging::gated;
  constexpr int turns = (narrow ? 4 : 2) / N;
  if (staging == Staging::norm && staged <= few_threads * 4)
    stage_turns<staging, N, 1>(p, scale_of, scales, heads, from, staged, squares, put);
  else
    stage_turns<staging, N, turns>(p, scale_of, scales, heads, from, staged, squares, put);
}

}  // namespace deltasane::kernel::cuda
