#include "kernel/delta_rule/bench/cuda_bench.h"

#include "base/random.h"
#include "kernel/delta_rule/cuda.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t size = 64;

// Numbers like those of a trained model, made once for one sequence and repeated: the time does not
// depend on them as long as nothing overflows.
struct BenchCase {
  int64_t batch, time, heads;
  GpuTensor<bf16> r, k, v, a, b, y, dy, dr, dk, dv, da, db;
  GpuTensor<float> w, dw, tau, dtau, states;
  DeltaRuleScratch scratch;

  BenchCase(int64_t n, int64_t t, int64_t h, double of_sane, const Gpu& gpu)
      : batch(n), time(t), heads(h) {
    const Shape tokens{batch, time, heads, size};
    const auto make = [&](auto& tensor, float low, float high, uint64_t seed) {
      using Element = std::remove_cvref_t<decltype(*tensor.data())>;
      Tensor<Element> host({time, heads, size});
      uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
      for (int64_t i = 0; i < host.elements(); ++i) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        host[i] = Element(low + (high - low) * float(x >> 40) * 0x1p-24f);
      }
      tensor = std::remove_cvref_t<decltype(tensor)>(gpu, tokens, "a benchmark");
      for (int64_t sequence = 0; sequence < batch; ++sequence)
        copy_to_gpu(tensor.data() + sequence * host.elements(), host.data(),
                    host.span().size_bytes(), gpu);
      gpu.wait();
    };
    make(r, -1, 1, 1), make(k, -0.2f, 0.2f, 2), make(v, -0.9f, 0.9f, 3), make(dy, -1, 1, 4);
    make(a, -0.2f, 0.0f, 5), make(b, 0.0f, 0.15f, 6), make(w, 0.8f, 0.999f, 7);
    for (GpuTensor<bf16>* one : {&y, &dr, &dk, &dv, &da, &db})
      *one = GpuTensor<bf16>(gpu, tokens, "a benchmark");
    dw = GpuTensor<float>(gpu, tokens, "a benchmark");
    Tensor<float> thresholds({batch, time / 16, heads});
    thresholds.fill(float(of_sane));
    tau = GpuTensor<float>(gpu, thresholds, "a benchmark");
    dtau = GpuTensor<float>(gpu, thresholds.shape(), "a benchmark");
    states = GpuTensor<float>(gpu, {delta_rule_states(batch, time, heads)}, "a benchmark");
  }
  DeltaRule<bf16> op(bool sane, bool keep_states = false) {
    DeltaRule<bf16> op;
    if (keep_states) op.states = states.data();
    op.batch = batch, op.time = time, op.heads = heads;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.a = a.data(), op.b = b.data();
    op.w = w.data(), op.y = y.data();
    if (sane) op.tau = tau.data();
    return op;
  }
  DeltaRuleGradient<bf16> gradient() {
    DeltaRuleGradient<bf16> d;
    d.dy = dy.data(), d.dr = dr.data(), d.dk = dk.data(), d.dv = dv.data(), d.da = da.data();
    d.db = db.data(), d.dw = dw.data(), d.dtau = dtau.data();
    return d;
  }
};

}  // namespace

void add_pair(std::vector<DeltaRuleMeasurement>& rows, DeltaRuleMeasurement row,
              const std::function<void(bool)>& run, const Gpu& gpu) {
  std::vector<double> seconds[2], costs;
  run(false), run(true);
  in_pairs(31, [&](bool sane) {
    TimedGpuEvent begin, end;
    begin.record(gpu);
    run(sane);
    end.record(gpu);
    end.wait();
    seconds[sane].push_back(end.milliseconds_since(begin) * 1e-3);
  });
  for (size_t i = 0; i < seconds[true].size(); ++i)
    costs.push_back(seconds[true][i] / seconds[false][i] - 1);
  for (const bool sane : {false, true}) {
    row.sane = sane, row.timing = timing_of(seconds[sane]);
    rows.push_back(row);
  }
  rows.back().sane_cost = median_interval(costs);
}

std::vector<DeltaRuleMeasurement> bench_delta_rule(const Gpu& gpu, double tau) {
  std::vector<DeltaRuleMeasurement> rows;
  struct Size {
    int64_t batch, time, heads;
  };
  for (const Size& at : {Size{8, 4096, 16}, {32, 4096, 16}, {1, 4096, 16}, {1, 65536, 16}}) {
    BenchCase data(at.batch, at.time, at.heads, tau, gpu);
    const double head_tokens = double(at.batch * at.time * at.heads), N = double(size);
    const auto add = [&](const char* pass, double bytes, double flops,
                         const std::function<void(bool)>& run) {
      add_pair(rows, {pass, false, at.batch, at.time, at.heads, size, bytes, flops, {}}, run, gpu);
    };
    add("forward", head_tokens * N * (6 * 2 + 4), head_tokens * forward_flops * N * N,
        [&](bool sane) { delta_rule(data.op(sane), data.scratch, gpu); });
    // As in training: forward saves the states at chunk boundaries for backward.
    const double state_bytes = head_tokens / 16 * N * N * 4;
    add("saving forward", head_tokens * N * (6 * 2 + 4) + state_bytes, head_tokens * forward_flops * N * N,
        [&](bool sane) { delta_rule(data.op(sane, true), data.scratch, gpu); });
    add("backward", head_tokens * N * (11 * 2 + 2 * 4) + state_bytes,
        head_tokens * backward_flops * N * N, [&](bool sane) {
          delta_rule_backward(data.op(sane, true), data.gradient(), data.scratch, gpu);
        });
  }
  return rows;
}

}  // namespace deltasane::kernel::cuda
