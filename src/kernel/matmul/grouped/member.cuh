// A grouped launch as its kernels are given it, and what they do with a sum. For .cu files.
#pragma once

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/matmul/grouped/product.h"

namespace deltasane::kernel::cuda::grouped {

inline constexpr int warps = 8, threads = 32 * warps;
inline constexpr int columns_of_mma = 8, step_inputs = 32;

enum class Function { none, tanh, sigmoid, squared_relu };
__device__ inline float apply(Function function, float x) {
  if (function == Function::none) return x;
  if (function == Function::squared_relu) return x < 0 ? 0.0f : x * x;  // keeps NaN
  return function == Function::tanh ? tanhf(x) : sigmoid(x);
}

struct Member {
  const bf16* a;
  const void* b;
  bf16* out;
  float* float_out;
  int columns, inner, first_block;
  Function function;
  bool add;
  WeightType type;  // of b
};
struct GroupedLaunch {
  int64_t rows;
  int count;
  Member member[GroupedProducts::most];
};

__device__ inline void store_pair(const Member& m, int64_t at, float x, float y) {
  x = apply(m.function, x), y = apply(m.function, y);
  if (m.float_out) {
    auto& to = *reinterpret_cast<float2*>(m.float_out + at);
    to = m.add ? float2{to.x + x, to.y + y} : float2{x, y};
  } else {
    store_one(m.out + at, x);
    store_one(m.out + at + 1, y);
  }
}

inline Function function_of(const std::optional<Activation>& activation) {
  if (!activation) return Function::none;
  switch (*activation) {
    case Activation::tanh:
      return Function::tanh;
    case Activation::sigmoid:
      return Function::sigmoid;
    case Activation::squared_relu:
      break;
  }
  return Function::squared_relu;
}

inline Member member_of(const GroupedProducts::One& one, int64_t first_block) {
  const bool is_quantized = one.b.is_quantized();
  const void* const b = is_quantized ? static_cast<const void*>(one.b.blocks) : one.b.rows;
  require_aligned(one.a, b, one.out, one.float_out);
  return {one.a,
          b,
          one.out,
          one.float_out,
          int(one.columns),
          int(one.inner),
          int(first_block),
          function_of(one.activation),
          one.add,
          is_quantized ? one.b.type : WeightType::bf16};
}

// Which member a block belongs to.
__device__ inline const Member& member_of_block(const GroupedLaunch& op) {
  int number = 0;
  while (number + 1 < op.count && op.member[number + 1].first_block <= int(blockIdx.x)) ++number;
  return op.member[number];
}

}  // namespace deltasane::kernel::cuda::grouped
