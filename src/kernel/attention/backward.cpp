// A block of queries of all heads of a group at a time, as products of matrices: with P = softmax(S),
// S = scale Q K' of the rows that each query sees, and R the sums over rows of P dP,
//
//     dP = dY V'     dS = P (dP - R)     dQ = scale dS K     dK += scale dS' Q     dV += P' dY
#include <algorithm>

#include "kernel/attention/attention.h"
#include "kernel/attention/expect_vectors.h"
#include "kernel/cross_entropy/cpu.h"
#include "kernel/isa_dispatch.h"
#include "kernel/matmul/gradient.h"
#include "kernel/rows/rows.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

constexpr int64_t block_tokens = 64;

// The rows [from, from + count) of one head, packed.
Tensor<float> head_rows(const View<const float>& all, int64_t head, int64_t from, int64_t count) {
  Tensor<float> rows({count, all.shape[2]});
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(all.at(from + i, head), all.shape[2], rows.view().at(i));
  return rows;
}

// Queries [at, at + count) of all heads of a group, (token, head) after one another.
Tensor<float> queries_of(const View<const float>& all, int64_t group, int64_t together, int64_t at,
                         int64_t count) {
  Tensor<float> rows({count * together, all.shape[2]});
  for (int64_t i = 0; i < count * together; ++i)
    std::copy_n(all.at(at + i / together, group * together + i % together), all.shape[2],
                rows.view().at(i));
  return rows;
}

void add_to_head(const Tensor<float>& from, int64_t head, const View<float>& to) {
  for (int64_t i = 0; i < from.shape()[0]; ++i) {
    const float* const row = from.view().at(i);
    float* const sum = to.at(i, head);
    for (int64_t c = 0; c < from.shape()[1]; ++c) sum[c] += row[c];
  }
}

Weights matrix_of(const View<const float>& rows) {
  return Weights::view(WeightType::f32, rows.data, rows.shape[0], rows.shape[1]);
}

class GroupBackward {
 public:
  GroupBackward(const Attention& op, const AttentionGradient& gradient, int64_t group,
                const Cpu& cpu)
      : op_(op),
        g_(gradient),
        cpu_(cpu),
        group_(group),
        rows_(op.k.shape[0]),
        before_(rows_ - op.q.shape[0]),
        together_(op.q.shape[1] / op.k.shape[1]),
        k_(head_rows(op.k, group, 0, rows_)),
        v_(head_rows(op.v, group, 0, rows_)),
        dk_(k_.shape()),
        dv_(v_.shape()) {}

  void run() {
    for (int64_t at = 0; at < op_.q.shape[0]; at += block_tokens)
      block(at, std::min(block_tokens, op_.q.shape[0] - at));
    add_to_head(dk_, group_, g_.dk);
    add_to_head(dv_, group_, g_.dv);
  }

 private:
  void block(int64_t at, int64_t count) {
    // The rows that any of these queries sees.
    const int64_t end = before_ + at + count;
    const int64_t begin =
        op_.window && op_.kept == 0 ? std::max<int64_t>(0, before_ + at + 1 - op_.window) : 0;
    const int64_t queries = count * together_, seen = end - begin;
    const View<float> k = k_.view().slice(0, begin, seen), v = v_.view().slice(0, begin, seen);
    Tensor<float> q = queries_of(op_.q, group_, together_, at, count);
    const Tensor<float> dy = queries_of(g_.dy, group_, together_, at, count);
    for (float& x : q.span()) x *= op_.scale;
    Tensor<float> p({queries, seen}), dp({queries, seen}), dq(q.shape());
    matmul(matrix_of(k), q.view(), p.view(), cpu_);
    matmul(matrix_of(v), dy.view(), dp.view(), cpu_);
    with_float_isa(cpu_.isa, [&]<Isa isa>() {
      each_row(queries, cpu_, [&](int64_t i) {
        weigh<isa>(before_ + at + i / together_, begin, seen, p.view().at(i), dp.view().at(i));
      });
    });
    matmul_tn(p.view(), dy.view(), dv_.view().slice(0, begin, seen), cpu_, Store::add);
    matmul_tn(dp.view(), q.view(), dk_.view().slice(0, begin, seen), cpu_, Store::add);
    matmul_nn(dp.view(), k, dq.view(), cpu_);
    for (int64_t i = 0; i < queries; ++i) {
      float* const to = g_.dq.at(at + i / together_, group_ * together_ + i % together_);
      const float* const from = dq.view().at(i);
      for (int64_t c = 0; c < q.shape()[1]; ++c) to[c] = op_.scale * from[c];
    }
  }

  // From the scores of the rows [begin, begin + seen) to P, and from dP to dS; 0 for rows that the
  // token at `row` does not see.
  template <Isa isa>
  void weigh(int64_t row, int64_t begin, int64_t seen, float* p, float* dp) const {
    const int64_t last = row + 1 - begin;
    const int64_t first = op_.window ? std::max<int64_t>(0, row + 1 - op_.window - begin) : 0;
    const int64_t kept = op_.window ? std::min(op_.kept, first) : 0;  // then begin is 0
    float largest = cpu::largest_of_row<isa>(p + first, last - first);
    if (kept > 0) largest = std::max(largest, cpu::largest_of_row<isa>(p, kept));
    float sum = cpu::exp_row<isa>(p + first, largest, last - first);
    if (kept > 0) sum += cpu::exp_row<isa>(p, largest, kept);
    const auto clear = [](float* x, int64_t from, int64_t to) { std::fill(x + from, x + to, 0.0f); };
    for (float* const x : {p, dp}) clear(x, kept, first), clear(x, last, seen);
    cpu::scale_row<isa>(p, 1 / sum, seen);
    float along = 0;
    for (int64_t s = 0; s < seen; ++s) along += p[s] * dp[s];
    for (int64_t s = 0; s < seen; ++s) dp[s] = p[s] * (dp[s] - along);
  }

  const Attention& op_;
  const AttentionGradient& g_;
  const Cpu& cpu_;
  const int64_t group_, rows_, before_, together_;
  Tensor<float> k_, v_, dk_, dv_;
};

}  // namespace

void attention_backward(const Attention& op, const AttentionGradient& gradient, const Cpu& cpu) {
  expect_attention(op);
  const Shape values{op.q.shape[0], op.q.shape[1], op.v.shape[2]};
  expect_vectors("dy", gradient.dy), expect_shape("dy", gradient.dy, values);
  expect_vectors("dq", gradient.dq), expect_shape("dq", gradient.dq, op.q.shape);
  expect_vectors("dk", gradient.dk), expect_shape("dk", gradient.dk, op.k.shape);
  expect_vectors("dv", gradient.dv), expect_shape("dv", gradient.dv, op.v.shape);
  for (int64_t g = 0; g < op.k.shape[1]; ++g) GroupBackward(op, gradient, g, cpu).run();
}

}  // namespace deltasane::kernel
