// Products of floats on the tensor cores: every float is the sum of two or three bf16 numbers
// ("planes"), and a product of sums is the sum of the products that matter. Two planes keep 16 bits
// of a factor and leave an error of 2^-16, three keep all 24.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace deltasane::kernel::cuda {

// A matrix in shared memory. `stride` elements from row to row: 16-byte pieces of 8 neighbouring
// rows lie in different banks.
template <int planes_, int rows, int columns>
struct SplitMatrix {
  static constexpr int planes = planes_, stride = columns + 8;
  __nv_bfloat16 plane[planes][rows][stride];

  __device__ void set(int row, int column, float x) {
#pragma unroll
    for (int p = 0; p < planes; ++p) {
      const __nv_bfloat16 part = __float2bfloat16_rn(x);
      plane[p][row][column] = part;
      x -= __bfloat162float(part);
    }
  }
  template <int count>  // even, neighbours in a row
  __device__ void set(int row, int column, const float (&value)[count]) {
    float x[count];
#pragma unroll
    for (int i = 0; i < count; ++i) x[i] = value[i];
#pragma unroll
    for (int p = 0; p < planes; ++p)
#pragma unroll
      for (int i = 0; i < count; i += 2) {
        const __nv_bfloat162 part = __floats2bfloat162_rn(x[i], x[i + 1]);
        *reinterpret_cast<__nv_bfloat162*>(&plane[p][row][column + i]) = part;
        x[i] -= __low2float(part), x[i + 1] -= __high2float(part);
      }
  }
  __device__ float get(int row, int column) const {
    float x = __bfloat162float(plane[planes - 1][row][column]);
#pragma unroll
    for (int p = planes - 2; p >= 0; --p) x += __bfloat162float(plane[p][row][column]);
    return x;
  }
};

enum class Lies { straight, transposed };

__device__ inline uint32_t shared_address(const void* at) {
  return uint32_t(__cvta_generic_to_shared(at));
}

template <Lies lies>
__device__ void load_matrices(uint32_t (&x)[4], const __nv_bfloat16* at) {
  if constexpr (lies == Lies::straight)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(at))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(at))
                 : "memory");
}

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 x 16 sums of one warp: two 16 x 8 pieces side by side. Lane l has, of piece p, the rows l / 4
// and l / 4 + 8 and the columns 8 p + 2 (l % 4) and the next one.
struct Sums {
  float c[2][4] = {};
  template <class Use>  // use(row, column, value, value of the next column)
  __device__ void each(Use&& use) const {
    const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      use(row, 8 * p + column, c[p][0], c[p][1]);
      use(row + 8, 8 * p + column, c[p][2], c[p][3]);
    }
  }
};

// sums += a b for a (16, depth) from a's row `row` on and b (depth, 16) from b's column `column`
// on. `a_lies` transposed: a is the transpose of what lies in memory; `b_lies` transposed:
// likewise, that is, b's columns lie as rows.
template <Lies a_lies, Lies b_lies, int depth, class A, class B>
__device__ void multiply(Sums& sums, const A& a, int row, const B& b, int column) {
  static_assert(A::planes == B::planes);
  constexpr int planes = A::planes;
  Sums small;
  const int lane = threadIdx.x % 32, piece = lane / 8, line = lane % 8;
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    uint32_t x[planes][4], y[planes][4];
#pragma unroll
    for (int p = 0; p < planes; ++p) {
      if constexpr (a_lies == Lies::straight)
        load_matrices<Lies::straight>(x[p], &a.plane[p][row + lane % 16][k + lane / 16 * 8]);
      else
        load_matrices<Lies::transposed>(x[p],
                                        &a.plane[p][k + piece / 2 * 8 + line][row + piece % 2 * 8]);
      if constexpr (b_lies == Lies::transposed)
        load_matrices<Lies::straight>(
            y[p], &b.plane[p][column + piece / 2 * 8 + line][k + piece % 2 * 8]);
      else
        load_matrices<Lies::transposed>(
            y[p], &b.plane[p][k + piece % 2 * 8 + line][column + piece / 2 * 8]);
    }
    // Large and small products are added up apart: shorter chains, and small ones are not lost.
    const auto both = [&](Sums& to, int p, int q) {
      multiply_add(to.c[0], x[p], y[q][0], y[q][1]);
      multiply_add(to.c[1], x[p], y[q][2], y[q][3]);
    };
    both(sums, 0, 0);
    if constexpr (planes == 3) both(small, 2, 0), both(small, 0, 2), both(small, 1, 1);
    both(small, 1, 0), both(small, 0, 1);
  }
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.c[p][i] += small.c[p][i];
}

}  // namespace deltasane::kernel::cuda
