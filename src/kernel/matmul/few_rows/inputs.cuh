// The inputs of a product of few rows as float4s, made of what the kernel before has left. For .cu files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/matmul/few_rows/few_rows.cuh"
#include "kernel/matmul/few_rows/product.h"

namespace deltasane::kernel::cuda {

__device__ inline float activated(GateActivation activation, float gate) {
  const float s = sigmoid(gate);
  return activation == GateActivation::silu ? gate * s : s;
}

// Four neighbours; at once where all addresses allow it.
template <bool aligned>
__device__ float4 four(const float* at) {
  if constexpr (aligned) return *reinterpret_cast<const float4*>(at);
  return make_float4(at[0], at[1], at[2], at[3]);
}
template <bool aligned>
__device__ float4 four(const bf16* at) {
  if constexpr (!aligned)
    return make_float4(to_float(at[0]), to_float(at[1]), to_float(at[2]), to_float(at[3]));
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
__device__ inline float4 activated(GateActivation activation, float4 gate) {
  return make_float4(activated(activation, gate.x), activated(activation, gate.y),
                     activated(activation, gate.z), activated(activation, gate.w));
}
__device__ inline float squares_of(float4 x) { return x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w); }

// When a norm's scale is found: never; before its columns are staged; by the lanes that stage a head;
// beside staging, as a factor of the product.
enum class Scale { never, before, with_head, after };

// Whether a power of two of a warp's lanes stages each head.
inline bool lanes_have_heads(int64_t size, int64_t columns) {
  return (size == 32 || size == 64 || size == 128) && columns % 128 == 0;
}

template <class Weight>
__device__ float scale_of(const FewRowsInput<Weight>& in, float squares) {
  return 1.0f / sqrtf(squares / float(in.size) + in.eps);
}

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

// 1 / sqrt(mean x^2 + eps) of each row's heads: `scales` (N, heads). A warp has a head, or, of rows
// that are one head, an eighth of it, whose sums are in `parts` (N, warps).
template <bool aligned, class Weight, int N>
__device__ void find_scales(const FewRowsProduct<Weight>& p, int heads, float* scales,
                            float* parts) {
  const FewRowsInput<Weight>& in = p.input;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const auto row_of = [&](int n) { return in.x + min(int64_t(n), p.rows - 1) * in.step; };
  if (heads > 1) {
    for (int i = warp; i < N * heads; i += few_warps) {
      const float* const x = row_of(i / heads) + i % heads * in.size;
      float sum = 0;
      for (int64_t c = lane * 4; c < in.size; c += 128) sum += squares_of(four<aligned>(x + c));
      sum = warp_sum(sum);
      if (lane == 0) scales[i] = scale_of(in, sum);
    }
    __syncthreads();
    return;
  }
  float sums[N] = {};
  for (int64_t c = int64_t(threadIdx.x) * 4; c < in.size; c += few_threads * 4)
#pragma unroll
    for (int n = 0; n < N; ++n) sums[n] += squares_of(four<aligned>(row_of(n) + c));
  store_parts(sums, parts);
  __syncthreads();
  if (threadIdx.x < N) scales[threadIdx.x] = scale_of(in, sum_of_parts(parts, int(threadIdx.x)));
  __syncthreads();
}

// What four neighbouring inputs are made of: loads without a branch, so that those of many are in flight
// before the first is used. Where there is no gate or bias, they are of x again, and not used.
template <FewRowsInputKind kind, bool aligned, class Weight>
struct RawInputs {
  using Kind = FewRowsInputKind;
  float4 x, weight, gate, bias;

  __device__ void load(const FewRowsProduct<Weight>& p, int n, int c) {
    const FewRowsInput<Weight>& in = p.input;
    const int row = min(n, int(p.rows) - 1), at = row * int(in.step) + c,
              of_gate = row * int(in.gate_step) + c;
    if constexpr (kind == Kind::gated) {
      x = four<aligned>(in.narrow_x + at);
      gate = four<aligned>(in.narrow_gate ? in.narrow_gate + of_gate : in.narrow_x + at);
    } else {
      x = four<aligned>(in.x + at);
    }
    if constexpr (kind == Kind::norm) weight = four<aligned>(in.weight + c);
    if constexpr (kind == Kind::head_norm) {
      weight = four<aligned>(in.weight + c % int(in.size));
      gate = four<aligned>(in.gate ? in.gate + of_gate : in.x + at);
      bias = four<aligned>(in.gate_bias ? in.gate_bias + c : in.x + at);
    }
  }
  // squares: those of x are added, where the scale comes after.
  __device__ float4 value(const FewRowsProduct<Weight>& p, Scale when, int heads,
                          const float* scales, int n, int c, float& squares) const {
    const FewRowsInput<Weight>& in = p.input;
    if constexpr (kind == Kind::norm) {
      if (when == Scale::before) return scaled(x, weight, scales[n]);
      squares += squares_of(x);
      return scaled(x, weight);
    }
    if constexpr (kind == Kind::head_norm) {
      float scale = 0;
      if (when == Scale::with_head) {
        float sum = squares_of(x);
        for (int far = 1; far < int(in.size) / 4; far *= 2) sum += __shfl_xor_sync(~0u, sum, far);
        scale = scale_of(in, sum);
      } else {
        scale = scales[n * heads + c / int(in.size)];
      }
      const float4 normed = scaled(x, weight, scale);
      if (!in.gate) return normed;
      float4 sum = gate;
      if (in.gate_bias)
        sum = make_float4(gate.x + bias.x, gate.y + bias.y, gate.z + bias.z, gate.w + bias.w);
      return scaled(normed, activated(in.activation, sum));
    }
    if constexpr (kind == Kind::gated)
      if (in.narrow_gate) return scaled(x, activated(in.activation, gate));
    return x;
  }
};

// put(n, i, inputs of the columns from + i and the next three) for all columns of a window, and zeros up to
// `staged` columns. A thread loads those of `turns` turns of the block and of `rows` rows at once.
template <FewRowsInputKind kind, bool aligned, int N, int turns, int rows, class Weight, class Put>
__device__ void stage_at_once(const FewRowsProduct<Weight>& p, Scale when, int heads,
                              const float* scales, int from, int staged, float (&squares)[N],
                              Put&& put) {
  constexpr int step = few_threads * 4;
  const int last = int(p.columns) - 4;
#pragma unroll 1
  for (int first = int(threadIdx.x) * 4; first < staged; first += turns * step)
#pragma unroll
    for (int upper = 0; upper < N; upper += rows) {
      RawInputs<kind, aligned, Weight> raw[turns][rows];
#pragma unroll
      for (int t = 0; t < turns; ++t)
#pragma unroll
        for (int r = 0; r < rows; ++r)
          raw[t][r].load(p, upper + r, min(from + first + t * step, last));
#pragma unroll
      for (int t = 0; t < turns; ++t) {
        const int i = first + t * step, c = from + i;
        if (i >= staged) break;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          const int n = upper + r;
          put(n, i,
              c <= last ? raw[t][r].value(p, when, heads, scales, n, c, squares[n])
                        : make_float4(0, 0, 0, 0));
        }
      }
    }
}
template <FewRowsInputKind kind, bool aligned, int N, class Weight, class Put>
__device__ void stage_inputs(const FewRowsProduct<Weight>& p, Scale when, int heads,
                             const float* scales, int from, int staged, float (&squares)[N],
                             Put&& put) {
  constexpr int at_once = !aligned ? 1 : kind == FewRowsInputKind::head_norm ? 2 : 4,
                rows = N < at_once ? N : at_once;
  const auto stage = [&]<int turns>() {
    stage_at_once<kind, aligned, N, turns, rows>(p, when, heads, scales, from, staged, squares, put);
  };
  if (staged <= few_threads * 4)
    stage.template operator()<1>();
  else
    stage.template operator()<at_once / rows>();
}

// use.operator()<kind, aligned>()
template <class Use>
__device__ void with_input_kind(FewRowsInputKind kind, bool aligned, Use&& use) {
  using Kind = FewRowsInputKind;
  const auto with_kind = [&]<Kind known>() {
    aligned ? use.template operator()<known, true>() : use.template operator()<known, false>();
  };
  switch (kind) {
    case Kind::plain:
      return with_kind.template operator()<Kind::plain>();
    case Kind::norm:
      return with_kind.template operator()<Kind::norm>();
    case Kind::head_norm:
      return with_kind.template operator()<Kind::head_norm>();
    case Kind::gated:
      return with_kind.template operator()<Kind::gated>();
  }
}

}  // namespace deltasane::kernel::cuda
