#include "kernel/experts/experts.h"

#include <algorithm>
#include <vector>

#include "kernel/activation/gated.h"
#include "kernel/experts/reference.h"
#include "kernel/experts/slots.h"
#include "kernel/matmul/gradient.h"
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

void route_backward(const Router& router, const RouterGradient& op, const Cpu& cpu) {
  const int64_t rows = op.logits.shape[0];
  const auto experts = size_t(op.logits.shape[1]), used = size_t(router.used);
  expect_rows("logits", op.logits, op.logits.shape);
  expect_rows("dlogits", op.dlogits, op.logits.shape);
  require(int64_t(op.chosen.size()) == rows * router.used &&
              op.dweight.size() == op.chosen.size(),
          "there is a gradient for each chosen expert");
  each_row(rows, cpu, [&](int64_t row) {
    reference::route_backward<float>(
        router, {op.logits.at(row), experts}, op.chosen.subspan(size_t(row) * used, used),
        op.dweight.subspan(size_t(row) * used, used), {op.dlogits.at(row), experts});
  });
}

namespace {

// Rows of tensors, those of each expert's choices after one another.
class RowsByExpert {
 public:
  explicit RowsByExpert(const Experts& op)
      : rows(checked_rows(op)),
        slots(int64_t(op.chosen.size())),
        used(slots / rows),
        by_expert(op.chosen, used, op.gate.size()) {}

  // Each row to the places of its choices.
  Tensor<float> gathered(View<const float> from, const Cpu& cpu) const {
    Tensor<float> to({slots, from.shape[1]});
    each_row(slots, cpu, [&](int64_t i) {
      std::copy_n(from.at(i / used), from.shape[1], to.view().at(place(i)));
    });
    return to;
  }
  View<float> of(size_t expert, Tensor<float>& all) const {
    const int64_t first = by_expert.first[expert];
    return all.view().slice(0, first, by_expert.first[expert + 1] - first);
  }
  int64_t place(int64_t choice) const { return by_expert.place[size_t(choice)]; }
  // Calls body(expert) for those that are chosen.
  template <class Body>
  void each_expert(const Body& body) const {
    by_expert.each_expert([&](size_t e, int64_t, int64_t) { body(e); });
  }

  const int64_t rows, slots, used;
  const ExpertSlots by_expert;

 private:
  static int64_t checked_rows(const Experts& op) {
    const int64_t rows = op.x.shape[0];
    expect_rows("x", op.x, op.x.shape);
    require(rows > 0 && op.chosen.size() % size_t(rows) == 0 && op.gate.size() == op.up.size() &&
                op.gate.size() == op.down.size() && !op.gate.empty(),
            "experts have three matrices each, and every row has as many of them");
    return rows;
  }
};

// gate x and up x of every choice.
void project(const Experts& op, const RowsByExpert& slots, Tensor<float>& x, Tensor<float>& gate,
             Tensor<float>& up, const Cpu& cpu) {
  std::vector<Matmul> all;
  slots.each_expert([&](size_t e) {
    all.push_back({op.gate[e], slots.of(e, x), slots.of(e, gate)});
    all.push_back({op.up[e], slots.of(e, x), slots.of(e, up)});
  });
  matmul_all(all, cpu);
}

}  // namespace

void add_experts(const Experts& op, const Cpu& cpu) {
  expect_rows("y", op.y, op.x.shape);
  if (op.x.shape[0] == 0) return;
  const RowsByExpert slots(op);
  const int64_t channels = op.x.shape[1], width = op.gate[0].out();
  Tensor<float> x = slots.gathered(op.x, cpu), gate({slots.slots, width}), up(gate.shape());
  Tensor<float> y(x.shape());
  project(op, slots, x, gate, up, cpu);
  multiply_by_gate(GateActivation::silu, gate.view(), up.view(), gate.view(), cpu);
  std::vector<Matmul> out_of;
  slots.each_expert([&](size_t e) {
    out_of.push_back({op.down[e], slots.of(e, gate), slots.of(e, y)});
  });
  matmul_all(out_of, cpu);
  each_row(slots.rows, cpu, [&](int64_t row) {
    float* const to = op.y.at(row);
    for (int64_t j = row * slots.used; j < (row + 1) * slots.used; ++j) {
      const float weight = op.chosen[size_t(j)].weight;
      const float* const from = y.view().at(slots.place(j));
      for (int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
    }
  });
}

void add_experts_backward(const Experts& op, const ExpertsGradient& g, const Cpu& cpu) {
  expect_rows("dy", g.dy, op.x.shape), expect_rows("dx", g.dx, op.x.shape);
  if (op.x.shape[0] == 0) return;
  const RowsByExpert slots(op);
  const int64_t channels = op.x.shape[1], width = op.gate[0].out();
  const auto experts = int64_t(op.gate.size());
  expect_shape("dgate", g.dgate, {experts, width, channels});
  expect_shape("dup", g.dup, {experts, width, channels});
  expect_shape("ddown", g.ddown, {experts, channels, width});
  require(g.dweight.size() == op.chosen.size(), "there is a gradient for each chosen expert");
  Tensor<float> x = slots.gathered(op.x, cpu), dy = slots.gathered(g.dy, cpu);
  Tensor<float> gate({slots.slots, width}), up(gate.shape()), hidden(gate.shape());
  Tensor<float> dhidden(gate.shape()), dgate(gate.shape()), dup(gate.shape()), dx(x.shape());
  project(op, slots, x, gate, up, cpu);
  multiply_by_gate(GateActivation::silu, gate.view(), up.view(), hidden.view(), cpu);
  const auto matrix = [](const Weights& w) {
    require(w.type() == WeightType::f32, "gradients are of f32 weights");
    return View<const float>(reinterpret_cast<const float*>(w.rows()), {w.out(), w.in()});
  };
  const auto gradient_of = [](const View<float>& all, size_t e) {
    return View<float>(all.at(int64_t(e)), {all.shape[1], all.shape[2]});
  };
  // of hidden where the choice's weight is 1
  slots.each_expert([&](size_t e) {
    matmul_nn(slots.of(e, dy), matrix(op.down[e]), slots.of(e, dhidden), cpu);
  });
  each_row(slots.slots, cpu, [&](int64_t i) {
    const int64_t at = slots.place(i);
    const float weight = op.chosen[size_t(i)].weight;
    const float* const h = hidden.view().at(at);
    float *const dh = dhidden.view().at(at), *const d = dy.view().at(at);
    float sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += h[c] * dh[c], dh[c] *= weight;
    g.dweight[size_t(i)] = sum;
    for (int64_t c = 0; c < channels; ++c) d[c] *= weight;
  });
  multiply_by_gate_backward({GateActivation::silu, gate.view(), up.view(), dhidden.view(),
                             dgate.view(), dup.view()},
                            cpu);
  slots.each_expert([&](size_t e) {
    matmul_tn(slots.of(e, dy), slots.of(e, hidden), gradient_of(g.ddown, e), cpu, Store::add);
    matmul_tn(slots.of(e, dgate), slots.of(e, x), gradient_of(g.dgate, e), cpu, Store::add);
    matmul_tn(slots.of(e, dup), slots.of(e, x), gradient_of(g.dup, e), cpu, Store::add);
    matmul_nn(slots.of(e, dgate), matrix(op.gate[e]), slots.of(e, dx), cpu);
    matmul_nn(slots.of(e, dup), matrix(op.up[e]), slots.of(e, dx), cpu, Store::add);
  });
  each_row(slots.rows, cpu, [&](int64_t row) {
    float* const to = g.dx.at(row);
    for (int64_t j = row * slots.used; j < (row + 1) * slots.used; ++j) {
      const float* const from = dx.view().at(slots.place(j));
      for (int64_t c = 0; c < channels; ++c) to[c] += from[c];
    }
  });
}

}  // namespace deltasane::kernel
