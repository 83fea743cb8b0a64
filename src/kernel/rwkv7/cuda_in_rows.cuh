// The rows of a layer's first matrix by what they read: r k v w a v g; the first layer has no
// second v, and g in its place. For .cu files.
#pragma once

#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_decode_parts.cuh"

namespace deltasane::kernel::cuda {

struct RowRange {
  int begin, end;
};
// Of a matrix, for one of `blocks`; rows times blocks have 32 bits, which are divided in a tenth of
// the time of 64.
__host__ __device__ constexpr RowRange range_of(int64_t rows, int block, int blocks) {
  const auto all = uint32_t(rows), of = uint32_t(blocks);
  return {int(all * uint32_t(block) / of), int(all * uint32_t(block + 1) / of)};
}

struct InRows {
  static constexpr int segments = 7;
  bool first;
  int end[segments];
  InRows() = default;
  __host__ __device__ InRows(const LayerSizes& s, bool first_layer) : first(first_layer) {
    const int64_t rows[segments] = {s.channels,          s.channels, s.channels,
                                    s.rank_wa,           s.rank_wa,  first ? s.rank_g : s.rank_v,
                                    first ? 0 : s.rank_g};
    int at = 0;
    for (int i = 0; i < segments; ++i) end[i] = at += int(rows[i]);
  }
  __host__ __device__ int rows() const { return end[segments - 1]; }
  __host__ __device__ int segment_of(int row) const {
    int segment = 0;
    for (int i = 0; i + 1 < segments; ++i) segment += end[i] <= row;
    return segment;
  }
  // From the first segment of a range to its last.
  __host__ __device__ int segments_of(const RowRange& rows) const {
    return rows.begin < rows.end ? segment_of(rows.end - 1) - segment_of(rows.begin) + 1 : 0;
  }
  template <class Weight>
  __device__ const float* mu(const LayerWeights<Weight>& w, int segment) const {
    switch (segment) {
      case 0:
        return w.x_r;
      case 1:
        return w.x_k;
      case 3:
        return w.x_w;
      case 4:
        return w.x_a;
      default:
        return is_g(segment) ? w.x_g : w.x_v;
    }
  }
  __device__ Then then(int segment) const {
    return segment == 3 ? Then::tanh : is_g(segment) ? Then::sigmoid : Then::nothing;
  }

 private:
  __device__ bool is_g(int segment) const { return segment == (first ? 5 : 6); }
};

}  // namespace deltasane::kernel::cuda
