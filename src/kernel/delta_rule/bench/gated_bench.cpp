#include <cmath>

#include "base/random.h"
#include "kernel/delta_rule/bench/cuda_bench.h"
#include "kernel/delta_rule/gated_cuda/gated_rule.h"

namespace deltasane::kernel::cuda {
namespace {

// Random numbers of a model's range, made once for a while and repeated.
struct GatedBenchCase {
  GatedRule shape;
  GpuTensor<bf16> r, k, v, y, dy, dr, dk, dv;
  GpuTensor<float> g, beta, tau, dg, dbeta, dtau, state, states;
  DeltaRuleScratch scratch;

  template <class T>
  static void fill(GpuTensor<T>& tensor, int64_t count, double low, double high, uint64_t seed,
                   const Gpu& gpu) {
    tensor = GpuTensor<T>(gpu, {count}, "a benchmark");
    Random random(seed);
    Tensor<T> some({std::min<int64_t>(count, 1 << 20)});
    for (T& x : some.span()) x = T(float(random.uniform(low, high)));
    for (int64_t at = 0; at < count; at += some.elements())
      copy_to_gpu(tensor.data() + at, some.data(),
                  uint64_t(std::min(some.elements(), count - at)) * sizeof(T), gpu);
    gpu.wait();
  }
  GatedBenchCase(const GatedRule& of, double bound, bool trains, const Gpu& gpu) : shape(of) {
    const int64_t tokens = of.batch * of.time * of.heads, keys = tokens * of.keys,
                  values = tokens * of.values, decays = of.rule == Rule::kda ? keys : tokens;
    const double unit = std::sqrt(3.0 / double(of.keys));  // a key of this range has length 1
    fill(r, keys, -unit, unit, 1, gpu), fill(k, keys, -unit, unit, 2, gpu);
    fill(v, values, -1, 1, 3, gpu);
    if (of.rule != Rule::deltanet) fill(g, decays, -0.2, 0, 4, gpu);
    fill(beta, tokens, 0.1, 0.9, 5, gpu);
    fill(tau, of.batch * (of.time / 16 + 1) * of.heads, bound, bound, 6, gpu);
    y = GpuTensor<bf16>(gpu, {values}, "a benchmark");
    if (!trains) {
      fill(state, of.batch * of.heads * of.keys * of.values, -0.1, 0.1, 7, gpu);
      return;
    }
    fill(dy, values, -1, 1, 8, gpu);
    dr = GpuTensor<bf16>(gpu, {keys}, "a benchmark");
    dk = GpuTensor<bf16>(gpu, {keys}, "a benchmark");
    dv = GpuTensor<bf16>(gpu, {values}, "a benchmark");
    dg = GpuTensor<float>(gpu, {decays}, "a benchmark");
    dbeta = GpuTensor<float>(gpu, {tokens}, "a benchmark");
    dtau = GpuTensor<float>(gpu, {tau.elements()}, "a benchmark");
    states = GpuTensor<float>(gpu, {gated_rule_states(of)}, "a benchmark");
  }
  GatedRule op(bool sane, bool keep_states = false) {
    GatedRule op = shape;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.g = g.data(), op.beta = beta.data();
    op.y = y.data();
    op.initial = op.final_state = state.data();
    if (sane) op.tau = tau.data();
    if (keep_states) op.states = states.data();
    return op;
  }
  GatedRuleGradient gradient() {
    GatedRuleGradient d{.dy = dy.data()};
    d.dr = dr.data(), d.dk = dk.data(), d.dv = dv.data(), d.dg = dg.data();
    d.dbeta = dbeta.data(), d.dtau = dtau.data();
    return d;
  }
};

}  // namespace

std::vector<DeltaRuleMeasurement> bench_gated(const Gpu& gpu, Rule rule, int64_t keys,
                                              int64_t values, double tau) {
  std::vector<DeltaRuleMeasurement> rows;
  const auto of = [&](int64_t batch, int64_t time) {
    GatedRule op{.rule = rule, .batch = batch, .time = time};
    op.key_heads = op.heads = 16, op.keys = keys, op.values = values;
    return op;
  };
  const double K = double(keys), V = double(values);
  const double decay_bytes = rule == Rule::kda ? 4 * K : rule == Rule::gated_deltanet ? 4 : 0;
  const auto row = [&](const char* pass, const GatedRule& op, double bytes, double flops) {
    const double head_tokens = double(op.batch * op.time * op.heads);
    DeltaRuleMeasurement m{pass,
                           false,
                           op.batch,
                           op.time,
                           op.heads,
                           keys,
                           head_tokens * bytes,
                           head_tokens * flops * K * V,
                           {}};
    m.values = values;
    return m;
  };
  const double forward = (2 * K + 2 * V) * 2 + decay_bytes + 4, states = K * V * 4 / 16;
  for (const GatedRule& op : {of(8, 4096), of(1, 4096), of(1, 65536)}) {
    GatedBenchCase data(op, tau, true, gpu);
    add_pair(
        rows, row("forward", op, forward, gated_forward_flops),
        [&](bool sane) { gated_rule(data.op(sane), data.scratch, gpu); }, gpu);
    add_pair(
        rows, row("saving forward", op, forward + states, gated_forward_flops),
        [&](bool sane) { gated_rule(data.op(sane, true), data.scratch, gpu); }, gpu);
    add_pair(
        rows,
        row("backward", op, (4 * K + 3 * V) * 2 + 2 * (decay_bytes + 4) + states,
            gated_backward_flops),
        [&](bool sane) {
          gated_rule_backward(data.op(sane, true), data.gradient(), data.scratch, gpu);
        },
        gpu);
  }
  for (const int64_t batch : {1, 64}) {
    GatedRule op = of(batch, 1);
    op.position = 15;
    GatedBenchCase data(op, tau, false, gpu);
    add_pair(
        rows, row("step", op, forward + 2 * 4 * K * V, gated_forward_flops),
        [&](bool sane) { gated_rule(data.op(sane), data.scratch, gpu); }, gpu);
  }
  return rows;
}

}  // namespace deltasane::kernel::cuda
