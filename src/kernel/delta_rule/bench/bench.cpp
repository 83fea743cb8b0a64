#include "kernel/delta_rule/bench/bench.h"

#include <algorithm>
#include <functional>

#include "kernel/bench/cpu_limits.h"
#include "kernel/delta_rule/bench/problem.h"

namespace deltasane::kernel {
namespace {

// A repeat of a body, and the multiply-add limit just before and just after it.
struct Repeat {
  double seconds, limit_before, limit_after;
  bool quiet(double best) const { return std::min(limit_before, limit_after) >= 0.97 * best; }
};

// Alternates both bodies, with the limit between them, until there are enough quiet repeats, or the
// time is up. Only quiet repeats are used, or all if there are hardly any.
struct Repeats {
  std::vector<Repeat> of[2];
  int left_out[2] = {};
  std::vector<double> costs;  // time of the second relative to the first, minus 1, of neighbours

  Repeats(const std::function<void()> (&bodies)[2], const Cpu& cpu) {
    constexpr int64_t enough = 7, too_few = 3;
    constexpr double least_seconds = 1, most_seconds = 4;
    for (const auto& body : bodies) body();
    double limit = multiply_add_flops_per_second_now(cpu.threads, cpu.isa), best = limit;
    const auto quiet_repeats = [&] {
      int64_t fewest = enough;
      for (const auto& repeats : of)
        fewest = std::min<int64_t>(
            fewest, std::ranges::count_if(repeats, [&](const Repeat& r) { return r.quiet(best); }));
      return fewest;
    };
    const double begin = seconds_now();
    for (double spent = 0; of[1].size() < enough || spent < least_seconds ||
                           (spent < most_seconds && quiet_repeats() < enough);
         spent = seconds_now() - begin)
      for (int i = 0; i < 2; ++i) {
        const double start = seconds_now();
        bodies[i]();
        Repeat repeat{seconds_now() - start, limit, 0};
        repeat.limit_after = limit = multiply_add_flops_per_second_now(cpu.threads, cpu.isa);
        best = std::max(best, limit);
        of[i].push_back(repeat);
      }
    const bool leaves_out = quiet_repeats() >= too_few;
    for (size_t i = 0; i < of[1].size(); ++i)
      if (!leaves_out || (of[0][i].quiet(best) && of[1][i].quiet(best)))
        costs.push_back(of[1][i].seconds / of[0][i].seconds - 1);
    if (!leaves_out) return;
    for (int i = 0; i < 2; ++i)
      left_out[i] =
          int(std::erase_if(of[i], [&](const Repeat& repeat) { return !repeat.quiet(best); }));
  }

  Timing timing(int body) const {
    std::vector<double> seconds;
    for (const Repeat& repeat : of[body]) seconds.push_back(repeat.seconds);
    return timing_of(std::move(seconds));
  }
  double share_of_limit(int body, double flops) const {
    std::vector<double> shares;
    for (const Repeat& repeat : of[body])
      shares.push_back(2 * flops / repeat.seconds / (repeat.limit_before + repeat.limit_after));
    return timing_of(std::move(shares)).median;
  }
};

// A problem like that of a trained model: slow decays, small keys, and a state of order one.
// tau 0: without SANE.
Problem<float> realistic(int64_t batch, int64_t time, int64_t heads, double tau) {
  ProblemShape shape{.batch = batch, .time = time, .heads = heads};
  shape.tau_low = shape.tau_high = tau;
  shape.stagger = 0;
  shape.state_scale = 0.1;
  Problem<float> problem(shape, 1);
  for (float& x : problem.k.span()) x *= 0.125f;
  for (float& x : problem.v.span()) x *= 0.5f;
  return problem;
}

}  // namespace

std::vector<DeltaRuleMeasurement> bench_delta_rule(const Cpu& cpu, double tau) {
  std::vector<DeltaRuleMeasurement> rows;
  struct Size {
    int64_t batch, time, heads;
  };
  for (const Size& size : {Size{1, 512, 12}, {1, 4096, 16}, {8, 512, 16}}) {
    Problem<float> plain = realistic(size.batch, size.time, size.heads, 0);
    Problem<float> sane = realistic(size.batch, size.time, size.heads, tau);
    const double N = 64, heads = double(size.batch * size.heads);
    const double head_tokens = heads * double(size.time), state_bytes = heads * N * N * 4;
    const auto add = [&](const char* pass, int64_t time, double bytes, double flops, auto run) {
      const Repeats repeats({[&] { run(plain); }, [&] { run(sane); }}, cpu);
      for (int with_sane = 0; with_sane < 2; ++with_sane)
        rows.push_back({pass, with_sane == 1, size.batch, time, size.heads, int64_t(N), bytes,
                        flops, repeats.timing(with_sane), repeats.share_of_limit(with_sane, flops),
                        repeats.left_out[with_sane]});
      if (!repeats.costs.empty()) rows.back().sane_cost = median_interval(repeats.costs);
    };
    add("forward", size.time, head_tokens * 7 * N * 4 + 2 * state_bytes,
        head_tokens * forward_flops * N * N,
        [&](Problem<float>& problem) { delta_rule(problem.op(), cpu); });
    add("backward", size.time, head_tokens * 14 * N * 4 + 3 * state_bytes,
        head_tokens * backward_flops * N * N, [&](Problem<float>& problem) {
          delta_rule_backward(problem.op(), problem.gradient(), cpu);
        });
    // Single tokens, one call each, in place, a whole chunk: as in decode.
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
