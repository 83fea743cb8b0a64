#include "kernel/experts/experts.h"

#include <algorithm>
#include <vector>

#include "kernel/activation/gated.h"
#include "kernel/experts/reference.h"
#include "kernel/rows/rows.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

void route(const Router& router, View<const float> logits, std::span<Choice> chosen,
           const Cpu& cpu) {
  expect_rows("logits", logits, logits.shape);
  const int64_t rows = logits.shape[0], experts = logits.shape[1];
  if (router.used < 1 || router.used > experts)
    fail(Fault::argument, "used: expected 1 to ", experts, " experts, found ", router.used);
  require(int64_t(chosen.size()) == rows * router.used, "there is room for the chosen experts");
  each_row(rows, cpu, [&](int64_t row) {
    reference::route<float>(router, {logits.at(row), size_t(experts)},
                            chosen.subspan(size_t(row * router.used), size_t(router.used)));
  });
}

void add_experts(const Experts& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("y", op.y, op.x.shape);
  const int64_t rows = op.x.shape[0], channels = op.x.shape[1];
  if (rows == 0) return;
  require(op.chosen.size() % size_t(rows) == 0 && op.gate.size() == op.up.size() &&
              op.gate.size() == op.down.size() && !op.gate.empty(),
          "experts have three matrices each, and every row has as many of them");
  const auto slots = int64_t(op.chosen.size()), used = slots / rows;
  const int64_t width = op.gate[0].out();
  // The slots of each expert follow each other: first[e] is the place of its first one.
  std::vector<int64_t> first(op.gate.size() + 1), place(op.chosen.size());
  for (const Choice& choice : op.chosen) ++first[size_t(choice.expert) + 1];
  for (size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (size_t i = 0; i < op.chosen.size(); ++i) place[i] = next[size_t(op.chosen[i].expert)]++;

  Tensor<float> x({slots, channels}), gate({slots, width}), up({slots, width});
  Tensor<float> y({slots, channels});
  each_row(slots, cpu, [&](int64_t i) {
    std::copy_n(op.x.at(i / used), channels, x.data() + place[size_t(i)] * channels);
  });
  std::vector<Matmul> into, out_of;
  for (size_t e = 0; e < op.gate.size(); ++e) {
    const int64_t at = first[e], count = first[e + 1] - at;
    if (count == 0) continue;
    const auto some = [&](Tensor<float>& of) { return of.view().slice(0, at, count); };
    into.push_back({op.gate[e], some(x), some(gate)});
    into.push_back({op.up[e], some(x), some(up)});
    out_of.push_back({op.down[e], some(gate), some(y)});
  }
  matmul_all(into, cpu);
  multiply_by_gate(GateActivation::silu, gate.view(), up.view(), gate.view(), cpu);
  matmul_all(out_of, cpu);
  each_row(rows, cpu, [&](int64_t row) {
    float* const to = op.y.at(row);
    for (int64_t j = row * used; j < (row + 1) * used; ++j) {
      const float weight = op.chosen[size_t(j)].weight;
      const float* const from = y.data() + place[size_t(j)] * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
    }
  });
}

}  // namespace deltasane::kernel
