// The rows of a layer's first matrix, LayerWeights::in, in segments that read the same mix: r k v w
// a v g; the first layer has no second v, and g in its place. For .cu files.
#pragma once

#include "model/rwkv7/decode/layer_weights.h"
#include "model/rwkv7/decode/packed_weights.cuh"

namespace deltasane::rwkv7 {

struct RowRange {
  int begin, end;
};
// A block's share of a matrix. rows * blocks fits 32 bits, which divide in a tenth of the time of
// 64.
__host__ __device__ constexpr RowRange range_of(int64_t rows, int block, int blocks) {
  const auto all = uint32_t(rows), of = uint32_t(blocks);
  return {int(all * uint32_t(block) / of), int(all * uint32_t(block + 1) / of)};
}

struct InputRows {
  static constexpr int segments = 7;
  bool first;
  int end[segments];
  InputRows() = default;
  __host__ __device__ InputRows(const LayerSizes& s, bool first_layer) : first(first_layer) {
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
  // How many segments a range touches.
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
  __device__ Epilogue epilogue(int segment) const {
    return segment == 3 ? Epilogue::tanh : is_g(segment) ? Epilogue::sigmoid : Epilogue::none;
  }

 private:
  __device__ bool is_g(int segment) const { return segment == (first ? 5 : 6); }
};

}  // namespace deltasane::rwkv7
