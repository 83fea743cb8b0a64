#include "kernel/delta_rule/delta_rule.h"

#include <algorithm>
#include <cstring>

#include "base/choose.h"
#include "kernel/delta_rule/cpu/runs.h"
#include "kernel/delta_rule/lower.h"
#include "kernel/delta_rule/validate.h"
#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {
namespace {

using Runs = std::vector<cpu::Run>;

template <class Body>
void choose_kernel(const DeltaRule<float>& op, const Cpu& cpu, Body&& body) {
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    choose<16, 32, 64, 128, 256>(op.k.shape[3], "k: key channels per head",
                                 [&]<int N>() { body.template operator()<isa, N>(); });
  });
}

// The key channels that a kernel has for `keys` of them.
int64_t kernel_keys(int64_t keys) {
  for (const int64_t size : {16, 32, 64, 128, 256})
    if (keys <= size) return size;
  fail(Fault::argument, "k: key channels per head: expected at most 256, found ", keys);
}

bool is_lowered(const DeltaRule<float>& op) {
  return op.rule != Rule::generalized || kernel_keys(op.k.shape[3]) != op.k.shape[3];
}

// The kernels need a head's channels to be contiguous.
void expect_packed_channels(
    std::initializer_list<std::pair<std::string_view, View<const float>>> views) {
  for (const auto& [name, view] : views)
    if (view.shape.rank() == 4 && view.stride[3] != 1)
      fail(Fault::argument, name, ": expected contiguous channels, found a stride of ",
           view.stride[3]);
}

void expect_packed_channels(const DeltaRule<float>& op) {
  expect_packed_channels({{"r", op.r},
                          {"w", op.w},
                          {"k", op.k},
                          {"v", op.v},
                          {"a", op.a},
                          {"b", op.b},
                          {"initial", op.initial},
                          {"final_state", op.final_state},
                          {"y", op.y}});
}

void expect_packed_channels(const DeltaRuleGradient<float>& g) {
  expect_packed_channels({{"dy", g.dy},
                          {"dfinal", g.dfinal},
                          {"dr", g.dr},
                          {"dw", g.dw},
                          {"dk", g.dk},
                          {"dv", g.dv},
                          {"da", g.da},
                          {"db", g.db},
                          {"dinitial", g.dinitial}});
}

// One head's vectors in a (batch, time, head, channel) view.
template <class T>
cpu::StridedRows<T> head_vectors(const View<T>& view, int64_t b, int64_t h) {
  return {view.at(b, 0, h), view.stride[1]};
}

cpu::Head head_of(const DeltaRule<float>& op, const Runs& runs, int64_t b, int64_t h) {
  const int64_t key_head = h / (op.v.shape[2] / op.k.shape[2]);
  return {head_vectors(op.r, b, key_head),
          head_vectors(op.w, b, h),
          head_vectors(op.k, b, key_head),
          head_vectors(op.v, b, h),
          head_vectors(op.a, b, h),
          head_vectors(op.b, b, h),
          op.tau ? head_vectors(op.tau, b, h) : cpu::StridedRows<const float>{nullptr, 0},
          runs.data(),
          int64_t(runs.size())};
}

void copy_rows(cpu::StridedRows<float> to, cpu::StridedRows<const float> from, cpu::Rows rows,
               int64_t keys) {
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    if (from.first == to.first) return;
    if (from.first)
      std::memcpy(to.at(i), from.at(i), size_t(keys) * sizeof(float));
    else
      std::memset(to.at(i), 0, size_t(keys) * sizeof(float));
  }
}

// The (value, key) matrix of one head in a (batch, head, value, key) view.
template <class T>
cpu::StridedRows<T> matrix(const View<T>& view, int64_t b, int64_t h) {
  if (!view) return {nullptr, 0};
  return {view.at(b, h), view.stride[2]};
}

std::vector<Runs> runs_of_batch(const DeltaRule<float>& op) {
  std::vector<Runs> runs;
  for (int64_t b = 0; b < op.k.shape[0]; ++b) runs.push_back(runs_of(op, b));
  return runs;
}

void clear_padding(const DeltaRule<float>& op, const View<float>& view, int64_t b, int64_t h,
                   cpu::Rows channels) {
  if (!view || !op.present) return;
  for (int64_t t = 0; t < op.k.shape[1]; ++t)
    if (op.present(b, t) == 0)
      std::fill(view.at(b, t, h) + channels.begin, view.at(b, t, h) + channels.end, 0.0f);
}

// Whether all runs are single tokens, which need no scratch memory.
bool all_single(const Runs& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [](const cpu::Run& run) { return run.end - run.begin == 1; });
}

void forward(const DeltaRule<float>& op, const Cpu& cpu) {
  const int64_t batch = op.k.shape[0], heads = op.v.shape[2], keys = op.k.shape[3];
  const int64_t values = op.v.shape[3];
  // A head's rows are split over threads only where there are too few heads. In multiples of the widest
  // instruction set's slab the kernels' row groups, and so all results, stay the same bit for bit.
  constexpr int64_t group = cpu::split_rows;
  const int64_t groups = (values + group - 1) / group;
  const int64_t wanted = (4 * cpu.threads.size() + batch * heads - 1) / (batch * heads);
  const int64_t parts = std::clamp<int64_t>(cpu.threads.size() == 1 ? 1 : wanted, 1, groups);
  // Heads of a sequence that are one task.
  const int64_t heads_together = std::clamp<int64_t>(
      cpu.threads.size() == 1 ? heads : batch * heads / (4 * cpu.threads.size()), 1,
      cpu::max_heads_together);
  const int64_t head_groups = (heads + heads_together - 1) / heads_together;
  const auto runs = runs_of_batch(op);
  choose_kernel(op, cpu, [&]<Isa isa, int N>() {
    cpu.threads.parallel(batch * head_groups * parts, [&](int64_t task) {
      const int64_t part = task % parts, head_group = task / parts % head_groups,
                    b = task / parts / head_groups;
      const cpu::Rows rows{part * groups / parts * group,
                           std::min(values, (part + 1) * groups / parts * group)};
      const int64_t first = head_group * heads / head_groups,
                    count = (head_group + 1) * heads / head_groups - first;
      Tensor<float> own, scratch;
      if (!all_single(runs[size_t(b)]))
        scratch = Tensor<float>({cpu::forward_scratch_floats(count, keys)});
      if (!op.final_state) own = Tensor<float>({count, values, keys});
      std::vector<cpu::ForwardHead> some;
      for (int64_t h = first; h < first + count; ++h) {
        cpu::StridedRows<float> state = matrix(op.final_state, b, h);
        if (!state.first) state = {own.data() + (h - first) * values * keys, keys};
        copy_rows(state, matrix(op.initial, b, h), rows, keys);
        some.push_back({head_of(op, runs[size_t(b)], b, h), state, head_vectors(op.y, b, h)});
      }
      cpu::forward<isa, N>(some.data(), count, rows, scratch.data());
      for (int64_t h = first; h < first + count; ++h) clear_padding(op, op.y, b, h, rows);
    });
  });
}

// The sums over rows of one head, one part of its rows: (5, time, key) and dtau.
struct PartSums {
  Tensor<float> vectors;
  std::vector<double> dtau;
};

struct BackwardTask {
  const DeltaRule<float>& op;
  const DeltaRuleGradient<float>& g;
  int64_t b, h;
  cpu::Rows rows;
  int64_t keys = op.k.shape[3], values = op.v.shape[3], time = op.k.shape[1];

  template <Isa isa, int N>
  PartSums run(const Runs& runs) const {
    PartSums sums{Tensor<float>({5, time, keys}),
                  std::vector<double>(op.tau ? size_t(op.tau.shape[1]) : 1)};
    Tensor<float> zeros, own_dstate, own_dv;
    cpu::StridedRows<float> dstate = matrix(g.dinitial, b, h);
    if (!dstate.first) {
      own_dstate = Tensor<float>({values, keys});
      dstate = {own_dstate.data(), keys};
    }
    copy_rows(dstate, matrix(g.dfinal, b, h), rows, keys);
    if (runs.empty()) return sums;
    cpu::StridedRows<const float> initial = matrix(op.initial, b, h);
    if (!initial.first) {
      zeros = Tensor<float>({values, keys});
      initial = {zeros.data(), keys};
    }
    if (!g.dv) own_dv = Tensor<float>({time, values});
    const auto sum = [&](int64_t which) {
      return cpu::StridedRows<float>{sums.vectors.data() + which * time * keys, keys};
    };
    Tensor<float> scratch({cpu::scratch_floats(rows.end - rows.begin, int64_t(runs.size()), keys)});
    cpu::backward<isa, N>(
        head_of(op, runs, b, h), rows, initial,
        {head_vectors(g.dy, b, h),
         dstate,
         g.dv ? head_vectors(g.dv, b, h) : cpu::StridedRows<float>{own_dv.data(), values},
         sum(0),
         sum(1),
         sum(2),
         sum(3),
         sum(4),
         {sums.dtau.data(), 1},
         scratch.data()});
    return sums;
  }
};

// Adds the parts up in order, and stores the sums that are wanted.
void reduce_parts(const DeltaRule<float>& op, const DeltaRuleGradient<float>& g, int64_t b,
                  int64_t h, std::span<const PartSums> parts) {
  const int64_t time = op.k.shape[1], keys = op.k.shape[3];
  const View<float> wanted[5] = {g.dr, g.dw, g.dk, g.da, g.db};
  for (int64_t which = 0; which < 5; ++which) {
    if (!wanted[which]) continue;
    for (int64_t t = 0; t < time; ++t) {
      float* to = wanted[which].at(b, t, h);
      for (int64_t j = 0; j < keys; ++j) {
        float sum = 0;
        for (const PartSums& part : parts) sum += part.vectors[(which * time + t) * keys + j];
        to[j] = sum;
      }
    }
  }
  for (int64_t c = 0; g.dtau && c < g.dtau.shape[1]; ++c) {
    double sum = 0;
    for (const PartSums& part : parts) sum += part.dtau[size_t(c)];
    g.dtau(b, c, h) = float(sum);
  }
}

void backward(const DeltaRule<float>& op, const DeltaRuleGradient<float>& g, const Cpu& cpu) {
  const int64_t batch = op.v.shape[0], heads = op.v.shape[2], values = op.v.shape[3];
  // Few heads: rows in up to four parts, whose sums are added in order. The number of parts depends
  // only on the shape, so the result does not depend on the number of threads.
  const int64_t blocks = (values + cpu::backward_rows - 1) / cpu::backward_rows;
  const int64_t parts = batch * heads >= 8 ? 1 : std::min<int64_t>(4, blocks);
  const auto runs = runs_of_batch(op);
  choose_kernel(op, cpu, [&]<Isa isa, int N>() {
    std::vector<PartSums> sums(parts == 1 ? 0 : size_t(batch * heads * parts));
    cpu.threads.parallel(batch * heads * parts, [&](int64_t index) {
      const int64_t part = index % parts, h = index / parts % heads, b = index / parts / heads;
      const BackwardTask task{op,
                              g,
                              b,
                              h,
                              {part * blocks / parts * cpu::backward_rows,
                               std::min(values, (part + 1) * blocks / parts * cpu::backward_rows)}};
      PartSums part_sums = task.run<isa, N>(runs[size_t(b)]);
      clear_padding(op, g.dv, b, h, task.rows);
      if (parts == 1)
        reduce_parts(op, g, b, h, {&part_sums, 1});
      else
        sums[size_t(index)] = std::move(part_sums);
    });
    for (int64_t head = 0; parts > 1 && head < batch * heads; ++head)
      reduce_parts(op, g, head / heads, head % heads, {sums.data() + head * parts, size_t(parts)});
  });
}

}  // namespace

const char* name_of(Rule rule) {
  switch (rule) {
    case Rule::generalized:
      return "generalized";
    case Rule::deltanet:
      return "deltanet";
    case Rule::gated_deltanet:
      return "gated_deltanet";
    case Rule::kda:
      return "kda";
  }
  return "unknown";
}

void delta_rule(const DeltaRule<float>& op, const Cpu& cpu) {
  validate(op);
  expect_packed_channels(op);
  if (!is_lowered(op)) return forward(op, cpu);
  const Lowered lowered = lower(op, kernel_keys(op.k.shape[3]), cpu);
  forward(lowered.op, cpu);
  store_final_state(lowered, op);
}

void delta_rule_backward(const DeltaRule<float>& op, const DeltaRuleGradient<float>& gradient,
                         const Cpu& cpu) {
  validate(op, gradient);
  expect_packed_channels(op);
  expect_packed_channels(gradient);
  if (!is_lowered(op)) return backward(op, gradient, cpu);
  const Lowered lowered = lower(op, kernel_keys(op.k.shape[3]), cpu);
  const LoweredGradient lowered_gradient = lower_gradient(lowered.op, gradient);
  backward(lowered.op, lowered_gradient.gradient, cpu);
  raise_gradient(op, lowered_gradient, gradient, cpu);
}

}  // namespace deltasane::kernel
