// Eight weights of a row of a quantized matrix in a lane's registers, as they are loaded and as bf16
// numbers. For .cu files.
//
// A warp has 8 rows by 32 columns: lane l has those of row l / 4 and, with q = l % 4, of columns
// 4 q .. 4 q + 3 and 16 + 4 q .. 16 + 4 q + 3. So its loads are the words of blocks (q8_block.h,
// low_bits/block.h) in the order in which they lie there.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernel/cuda/split_bf16.cuh"
#include "kernel/matmul/low_bits/block.h"

namespace deltasane::kernel::cuda {

template <WeightType type>
struct QuantizedBlock {
  using Type = BlockOf<type>;
  static constexpr int columns = Type::columns;
};
template <>
struct QuantizedBlock<WeightType::q8> {
  using Type = Q8Block;
  static constexpr int columns = q8_columns;
};

template <WeightType type>
class QuantizedOctet {
 public:
  using Block = typename QuantizedBlock<type>::Type;
  static constexpr int parts = QuantizedBlock<type>::columns / 32;

  // Of 32 columns of a block of 8 rows, the `part`-th of it.
  __device__ void load(const Block& block, int part, int lane) {
    const int row = lane / 4, quarter = lane % 4;
    if constexpr (type == WeightType::q8) {
      words_[0] = word_at(block.value[quarter][row]);
      words_[1] = word_at(block.value[4 + quarter][row]);
      d_ = __ldg(&block.scale[row]);
    } else {
      const auto& bits = block.bits[part];
      d_ = __ldg(&block.d[row]);
      if constexpr (type == WeightType::q6_k) {
        const int vector = quarter < 3 ? quarter : 2;  // the fourth is in the upper bits of three
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          words_[i] = word_at(bits.vector[i][vector][row]);
          scale_[i] = __ldg(reinterpret_cast<const uint8_t*>(&block.scale[2 * part + i][row]));
        }
      } else {
        words_[0] = word_at(bits.nibble[quarter][row]);
      }
      if constexpr (is_affine) {
        d_min_ = __ldg(&block.d_min[row]);
        scale_[0] = __ldg(&block.scale[part][0][row]);
        scale_[1] = __ldg(&block.scale[part][1][row]);
      }
      if constexpr (type == WeightType::q5_k) fifth_ = word_at(bits.fifth[row]);
    }
  }

  // Two in a word, in the order of the columns. All lanes of a warp call it.
  __device__ uint4 weights(int lane) const {
    uint32_t bytes[2], pairs[4];
    numbers(lane, bytes);
    const float d = __half2float(__ushort_as_half(d_));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float scale = d, minimum = 0;
      if constexpr (type == WeightType::q6_k) scale = d * float(int8_t(scale_[half]));
      if constexpr (is_affine) {
        scale = d * float(scale_[0]);
        minimum = __half2float(__ushort_as_half(d_min_)) * float(scale_[1]);
      }
      // The definition's numbers, fused or not: products are exact, but for one rounding of six bits.
      const auto weight = [&](int i) {
        const float scaled = scale * number(bytes[half], i);
        return is_affine ? scaled - minimum : scaled;
      };
#pragma unroll
      for (int i = 0; i < 2; ++i) pairs[2 * half + i] = pack_bf16(weight(2 * i), weight(2 * i + 1));
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }

 private:
  static constexpr bool is_affine = type == WeightType::q4_k || type == WeightType::q5_k;
  // What numbers have added to them, so that bytes hold them without a sign.
  static constexpr float added = type == WeightType::q8     ? 128
                                 : type == WeightType::q6_k ? 32
                                 : type == WeightType::q4   ? 8
                                                            : 0;

  template <class Byte>
  __device__ static uint32_t word_at(const Byte (&bytes)[4]) {
    return __ldg(reinterpret_cast<const uint32_t*>(&bytes));
  }
  // Byte i as a number. Put behind the exponent of 2^23 it is a float, without a conversion, which
  // takes four times as long.
  __device__ static float number(uint32_t bytes, int i) {
    constexpr uint32_t exponent = 0x4b000000;
    return __uint_as_float(__byte_perm(bytes, exponent, unsigned(0x7440 + i))) -
           (float(1 << 23) + added);
  }
  __device__ void numbers(int lane, uint32_t (&bytes)[2]) const {
    const int quarter = lane % 4;
    if constexpr (type == WeightType::q8) {
      bytes[0] = words_[0] ^ 0x80808080u, bytes[1] = words_[1] ^ 0x80808080u;
    } else if constexpr (type == WeightType::q6_k) {
      const uint32_t upper = (words_[0] >> 6 & 0x03030303u) | (words_[1] >> 4 & 0x0c0c0c0cu);
      uint32_t fourth[2] = {0, 0};
#pragma unroll
      for (int v = 0; v < 3; ++v) {
        const uint32_t bits = __shfl_sync(~0u, upper, (lane & ~3) + v);
        fourth[0] |= (bits & 0x03030303u) << (2 * v);
        fourth[1] |= (bits >> 2 & 0x03030303u) << (2 * v);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) bytes[i] = quarter == 3 ? fourth[i] : words_[i] & 0x3f3f3f3fu;
    } else {
      bytes[0] = words_[0] & 0x0f0f0f0fu, bytes[1] = words_[0] >> 4 & 0x0f0f0f0fu;
      if constexpr (type == WeightType::q5_k) {
        bytes[0] |= (fifth_ >> quarter & 0x01010101u) << 4;
        bytes[1] |= (fifth_ >> (4 + quarter) & 0x01010101u) << 4;
      }
    }
  }

  uint32_t words_[2], fifth_;
  uint16_t d_, d_min_;
  uint8_t scale_[2];
};

}  // namespace deltasane::kernel::cuda
