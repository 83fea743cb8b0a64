#include "kernel/attention/whole_cuda.h"

#include "kernel/attention/reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

struct WholeCase {
  int64_t sequences, time, heads, kv_heads, size, window;
  bool padded;
};
const WholeCase whole_cases[] = {{2, 13, 4, 2, 8, 0, false},
                                 {1, 37, 3, 3, 10, 7, false},
                                 {2, 21, 2, 1, 16, 0, true},
                                 {1, 300, 1, 1, 4, 40, false}};

template <class T>
struct WholeResult {
  Numbers<T> y, dq, dk, dv;
};
struct WholeInputs {
  Numbers<float> q, k, v, dy;
  Numbers<uint8_t> present;
};

template <class T>
WholeResult<T> whole_definition(const WholeCase& n, const WholeInputs& in) {
  const Numbers<T> q = as<T>(in.q), k = as<T>(in.k), v = as<T>(in.v), dy = as<T>(in.dy);
  WholeResult<T> d{Numbers<T>(q.size()), Numbers<T>(q.size()), Numbers<T>(k.size()),
                   Numbers<T>(k.size())};
  const T scale = T(0.3f);
  for (int64_t i = 0; i < n.sequences * n.time * n.heads; ++i) {
    const int64_t t = i / n.heads % n.time, row = i / n.heads, first = row - t;
    const int64_t group = i % n.heads / (n.heads / n.kv_heads);
    if (!in.present[size_t(row)]) continue;
    Numbers<T> keys, values;
    Numbers<int64_t> seen;
    for (int64_t s = 0; s <= t; ++s)
      if (in.present[size_t(first + s)] && (!n.window || t - s < n.window)) {
        seen.push_back((first + s) * n.kv_heads + group);
        for (const T x : row_of(k, seen.back(), n.size)) keys.push_back(x);
        for (const T x : row_of(v, seen.back(), n.size)) values.push_back(x);
      }
    Numbers<T> dkeys(keys.size()), dvalues(values.size());
    reference::attention<T>(row_of(q, i, n.size), keys, values, scale, row_of(d.y, i, n.size));
    reference::attention_backward<T>({row_of(q, i, n.size), keys, values, scale,
                                      row_of(dy, i, n.size), row_of(d.dq, i, n.size), dkeys,
                                      dvalues});
    for (size_t s = 0; s < seen.size(); ++s)
      for (int64_t c = 0; c < n.size; ++c) {
        const size_t to = size_t(seen[s] * n.size + c), from = s * size_t(n.size) + size_t(c);
        d.dk[to] += dkeys[from], d.dv[to] += dvalues[from];
      }
  }
  return d;
}

class GpuWholeAttention : public GpuTest {};

TEST_F(GpuWholeAttention, AndItsGradientAreTheDefinition) {
  Products products(gpu());
  for (const WholeCase& n : whole_cases) {
    const int64_t rows = n.sequences * n.time, queries = rows * n.heads * n.size,
                  keys = rows * n.kv_heads * n.size;
    WholeInputs in{random_numbers<float>(queries, 1, 1),
                   random_numbers<float>(keys, 1, 2),
                   random_numbers<float>(keys, 1, 3),
                   random_numbers<float>(queries, 1, 4),
                   {}};
    for (int64_t i = 0; i < rows; ++i) in.present.push_back(!n.padded || i % n.time >= 3);
    const auto q = upload<float>(in.q), k = upload<float>(in.k), v = upload<float>(in.v),
               dy = upload<float>(in.dy);
    const auto present = upload(in.present);
    auto y = poisoned<float>(queries), dq = poisoned<float>(queries), dk = poisoned<float>(keys),
         dv = poisoned<float>(keys);
    WholeAttention<float> op{n.sequences, n.time,   n.heads,  n.kv_heads, n.size,
                             q.data(),    k.data(), v.data(), 0.3f,       n.window};
    if (n.padded) op.present = present.data();
    GpuBuffer scratch(gpu(), whole_attention_scratch(op), "a test");
    op.y = y.data(), op.scratch = scratch.data();
    whole_attention(op, products, gpu());
    whole_attention_backward(op, {dy.data(), dq.data(), dk.data(), dv.data()}, products, gpu());
    const auto plain = whole_definition<float>(n, in);
    const auto truth = whole_definition<double>(n, in);
    expect_close("y", y, plain.y, truth.y), expect_close("dq", dq, plain.dq, truth.dq);
    expect_close("dk", dk, plain.dk, truth.dk), expect_close("dv", dv, plain.dv, truth.dv);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
