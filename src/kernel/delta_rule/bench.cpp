#include "kernel/delta_rule/bench.h"

#include <functional>

#include "kernel/delta_rule/problem.h"

namespace deltasane::kernel {
namespace {

// Both bodies in turns.
std::pair<Timing, Timing> time_in_turns(const std::function<void()>& a,
                                        const std::function<void()>& b) {
  a(), b();
  std::vector<double> seconds_a, seconds_b;
  const double begin = seconds_now();
  while (seconds_a.size() < 5 || seconds_now() - begin < 1.0) {
    const double t0 = seconds_now();
    a();
    const double t1 = seconds_now();
    b();
    seconds_a.push_back(t1 - t0);
    seconds_b.push_back(seconds_now() - t1);
  }
  return {timing_of(seconds_a), timing_of(seconds_b)};
}

// A problem like a trained model's: slow decays, small keys, and a state of order one.
Problem<float> realistic(int64_t batch, int64_t time, int64_t heads, bool sane) {
  ProblemShape shape{.batch = batch, .time = time, .heads = heads};
  shape.tau_low = sane ? 3.0 : 0, shape.tau_high = sane ? 3.2 : 0;  // alpha 3 at the start
  shape.stagger = 0;
  shape.state_scale = 0.1;
  Problem<float> problem(shape, 1);
  for (float& x : problem.k.span()) x *= 0.125f;
  for (float& x : problem.v.span()) x *= 0.5f;
  return problem;
}

}  // namespace

std::vector<DeltaRuleMeasurement> bench_delta_rule(const Cpu& cpu) {
  std::vector<DeltaRuleMeasurement> rows;
  struct Size {
    int64_t batch, time, heads;
  };
  for (const Size& size : {Size{1, 512, 12}, {1, 4096, 16}, {8, 512, 16}}) {
    Problem<float> plain = realistic(size.batch, size.time, size.heads, false);
    Problem<float> sane = realistic(size.batch, size.time, size.heads, true);
    const double N = 64, heads = double(size.batch * size.heads);
    const double head_tokens = heads * double(size.time), state_bytes = heads * N * N * 4;
    const auto add = [&](const char* pass, int64_t time, double bytes, double flops, auto run) {
      const auto [without, with] = time_in_turns([&] { run(plain); }, [&] { run(sane); });
      rows.push_back(
          {pass, false, size.batch, time, size.heads, int64_t(N), bytes, flops, without});
      rows.push_back({pass, true, size.batch, time, size.heads, int64_t(N), bytes, flops, with});
    };
    add("forward", size.time, head_tokens * 7 * N * 4 + 2 * state_bytes,
        head_tokens * forward_flops * N * N,
        [&](Problem<float>& problem) { delta_rule(problem.op(), cpu); });
    add("backward", size.time, head_tokens * 14 * N * 4 + 3 * state_bytes,
        head_tokens * backward_flops * N * N, [&](Problem<float>& problem) {
          delta_rule_backward(problem.op(), problem.gradient(), cpu);
        });
    // Single tokens, one call each, in place, a whole chunk: the way a model generates.
    add("step", 16, 16 * (heads * 7 * N * 4 + 2 * state_bytes), 16 * heads * forward_flops * N * N,
        [&](Problem<float>& problem) {
          for (int64_t t = 0; t < 16; ++t) {
            DeltaRule<float> op = problem.op(t, 1, problem.initial.view());
            op.final_state = problem.initial.view();
            delta_rule(op, cpu);
          }
        });
  }
  return rows;
}

}  // namespace deltasane::kernel
