// What the arguments of attention must be.
#pragma once

#include <string_view>

#include "kernel/attention/attention.h"

namespace deltasane::kernel {

inline void expect_vectors(std::string_view name, const View<const float>& view) {
  if (view.shape.rank() != 3 || view.stride[2] != 1)
    fail(Fault::argument, name, ": expected (time, head, channel) with contiguous channels, found ",
         view.shape);
}

// All but y.
inline void expect_attention(const Attention& op) {
  expect_vectors("q", op.q), expect_vectors("k", op.k), expect_vectors("v", op.v);
  const int64_t time = op.q.shape[0], heads = op.q.shape[1];
  const int64_t rows = op.k.shape[0], groups = op.k.shape[1];
  expect_shape("k", op.k, {rows, groups, op.q.shape[2]});
  expect_shape("v", op.v, {rows, groups, op.v.shape[2]});
  if (groups < 1 || heads % groups != 0 || rows < time)
    fail(Fault::argument, "k: expected at least ", time, " rows of heads that divide ", heads,
         ", found ", op.k.shape);
  if (op.window < 0 || op.kept < 0)
    fail(Fault::argument, "window and kept: expected 0 or more, found ", op.window, " and ",
         op.kept);
}

}  // namespace deltasane::kernel
