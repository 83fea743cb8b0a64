#include "kernel/attention/attention.h"

#include <algorithm>

#include "kernel/attention/cpu.h"
#include "kernel/attention/expect_vectors.h"
#include "kernel/isa_dispatch.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

void attention(const Attention& op, const Cpu& cpu) {
  expect_attention(op);
  const int64_t time = op.q.shape[0], heads = op.q.shape[1], keys = op.q.shape[2];
  const int64_t rows = op.k.shape[0], groups = op.k.shape[1], values = op.v.shape[2];
  expect_shape("y", op.y, {time, heads, values});
  expect_vectors("y", op.y);
  if (time == 0) return;
  const int64_t together = heads / groups, queries = time * together;  // of one group
  constexpr int64_t block = cpu::attention_queries;
  const int64_t blocks = (queries + block - 1) / block;
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(groups * blocks, [&](int64_t task) {
      // The longest rows come last; beginning with them, threads finish together.
      const int64_t g = task % groups, at = (blocks - 1 - task / groups) * block;
      const int64_t count = std::min(block, queries - at);
      cpu::AttentionQuery query[block];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t t = (at + i) / together, h = g * together + (at + i) % together;
        const int64_t end = rows - time + t + 1;
        query[i] = {op.q.at(t, h), op.y.at(t, h),
                    op.window ? std::max<int64_t>(0, end - op.window) : 0, end};
      }
      Tensor<float> scratch({cpu::attention_scratch(values)});
      cpu::attend<isa>({query, count, op.k.at(0, g), op.k.stride[0], op.v.at(0, g), op.v.stride[0],
                        keys, values, op.scale, op.window ? op.kept : 0, scratch.data()});
    });
  });
}

}  // namespace deltasane::kernel
