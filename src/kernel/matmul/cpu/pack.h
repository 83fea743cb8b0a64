// Panels: rows of a matrix transposed, so that each input's numbers of all rows are contiguous. For
// files compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/cpu/stored.h"

namespace deltasane::kernel {
namespace {

typedef Vector<4>::Vec Four;

[[gnu::always_inline]] inline void transpose(Four (&m)[4]) {
  const Four a = __builtin_shufflevector(m[0], m[1], 0, 4, 1, 5);
  const Four b = __builtin_shufflevector(m[0], m[1], 2, 6, 3, 7);
  const Four c = __builtin_shufflevector(m[2], m[3], 0, 4, 1, 5);
  const Four d = __builtin_shufflevector(m[2], m[3], 2, 6, 3, 7);
  m[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  m[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  m[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  m[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

// `width` rows (a multiple of 4), of which `count` exist, of `depth` inputs: panel (depth, width).
template <Isa isa, WeightType type, int width>
void pack_panel(const Element<type>* from, int64_t stride, int64_t count, int64_t depth,
                float* panel) {
  for (int first = 0; first < width; first += 4) {
    const Element<type>* row[4];
    const Element<type> nothing[4] = {};
    int64_t advance[4];
    for (int i = 0; i < 4; ++i) {
      const bool there = first + i < count;
      row[i] = there ? from + (first + i) * stride : nothing;
      advance[i] = there ? 1 : 0;
    }
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      Four m[4];
      for (int i = 0; i < 4; ++i) m[i] = load_stored<isa, type, 4>(row[i] + k * advance[i]);
      transpose(m);
      for (int i = 0; i < 4; ++i) Simd<4>::store(panel + (k + i) * width + first, m[i]);
    }
    for (; k < depth; ++k)
      for (int i = 0; i < 4; ++i) {
        const Element<type> alone[4] = {row[i][k * advance[i]]};
        panel[k * width + first + i] = load_stored<isa, type, 4>(alone)[0];
      }
  }
}

// The same of a column-major matrix: `depth` columns, `stride` apart.
template <int width>
void copy_panel(const float* from, int64_t stride, int64_t count, int64_t depth, float* panel) {
  for (int64_t k = 0; k < depth; ++k, from += stride, panel += width)
    if (count >= width)
      for (int i = 0; i < width; ++i) panel[i] = from[i];
    else
      for (int i = 0; i < width; ++i) panel[i] = i < count ? from[i] : 0.0f;
}

// A panel that starts at (row, column) of a matrix.
template <Isa isa, WeightType type, cpu::Layout layout, int width>
void pack_from(const Element<type>* matrix, int64_t stride, int64_t row, int64_t column,
               int64_t count, int64_t depth, float* panel) {
  if constexpr (layout == cpu::Layout::row_major)
    pack_panel<isa, type, width>(matrix + row * stride + column, stride, count, depth, panel);
  else
    copy_panel<width>(matrix + column * stride + row, stride, count, depth, panel);
}

}  // namespace
}  // namespace deltasane::kernel
