#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_train.h"
#include "cli/memory_advice.h"
#include "train/gpu/gpu_bench.h"
#include "train/optimizer/precision.h"

namespace deltasane::cli {
namespace {

using BenchJson = nlohmann::ordered_json;

BenchJson spread_of(const Timing& timing) {
  return {{"median", timing.median}, {"low", timing.low}, {"high", timing.high}};
}

void print_gpu_json(const BenchTrainOptions& options, const train::GpuTrainingMeasurement& m) {
  BenchJson where = BenchJson::object();
  for (size_t i = 0; i < m.sane.milliseconds.size(); ++i)
    where[names_of_work[i]] = {{"sane", m.sane.milliseconds[i]},
                               {"without_sane", m.baseline.milliseconds[i]}};
  const BenchJson all{{"device", m.device},
                      {"size", options.size},
                      {"weights", options.weights},
                      {"sequences", m.sequences},
                      {"context", m.time},
                      {"precision", options.precision},
                      {"recompute", options.recompute},
                      {"tokens_per_s", m.tokens_per_second()},
                      {"step_seconds", spread_of(m.sane.seconds)},
                      {"step_seconds_without_sane", spread_of(m.baseline.seconds)},
                      {"pairs", m.sane_cost.count},
                      {"share_of_sane", share_json(m, m.sane_cost)},
                      {"share_of_sane_at_one_clock", share_json(m, m.sane_cost_at_one_clock)},
                      {"product_flops_per_token", m.product_flops},
                      {"recurrence_flops_per_token", m.recurrence_flops},
                      {"bf16_product_tflops", m.product_flops_per_second / 1e12},
                      {"fraction_of_products", m.of_products()},
                      {"muon_update_seconds", m.muon_seconds},
                      {"activation_bytes", m.activation_bytes},
                      {"milliseconds", where}};
  fmt::print("{}\n", all.dump(2));
}

}  // namespace

int bench_train_on_gpu(const BenchTrainOptions& options, int gpu_index) {
  ThreadPool threads(options.threads);
  const train::GpuTrainingMeasurement m =
      with_memory_advice("fewer --sequences, a shorter --context or --recompute need less", [&] {
        return train::bench_gpu_training(options.asked(), train::precision_named(options.precision),
                                         gpu_index, {threads});
      });
  if (options.json) {
    print_gpu_json(options, m);
    return 0;
  }
  fmt::print("{} {}, {} weights, {} x {} tokens, {}, {}; {:.1f} GiB of activations\n", m.title,
             options.size, options.weights, m.sequences, m.time, options.precision, m.device,
             double(m.activation_bytes) / double(1 << 30));
  fmt::print("{:.0f} tokens/s: {:.1f} ms a step ({:.1f} to {:.1f}); without SANE {:.1f} ms\n",
             m.tokens_per_second(), 1e3 * m.sane.seconds.median, 1e3 * m.sane.seconds.low,
             1e3 * m.sane.seconds.high, 1e3 * m.baseline.seconds.median);
  fmt::print("{:.1f} % of the bf16 product rate of {:.0f} TFLOP/s\n", 100 * m.of_products(),
             m.product_flops_per_second / 1e12);
  fmt::print("SANE adds to a step: {}: {} pairs\n", share_text(m, m.sane_cost), m.sane_cost.count);
  fmt::print("  at one clock: {}\n", share_text(m, m.sane_cost_at_one_clock));
  double sum = 0;
  for (const double one : m.sane.milliseconds) sum += one;
  for (size_t i = 0; i < m.sane.milliseconds.size(); ++i)
    fmt::print("  {:<20} {:>8.2f} ms  {:>5.1f} %   without SANE {:>8.2f} ms\n", names_of_work[i],
               m.sane.milliseconds[i], 100 * m.sane.milliseconds[i] / sum,
               m.baseline.milliseconds[i]);
  fmt::print("An update with Muon takes {:.2f} ms\n", 1e3 * m.muon_seconds);
  return 0;
}

}  // namespace deltasane::cli
