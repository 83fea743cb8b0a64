#include "cli/bench/bench_parts.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/bench/bench_train.h"
#include "cli/counted.h"
#include "model/device.h"
#include "tensor/cuda/gpu.h"
#include "train/bench/bench.h"

namespace deltasane::cli {
namespace {

int bench_train_on_cpu(const BenchTrainOptions& options) {
  ThreadPool threads(options.threads);
  const train::TrainingMeasurement m = train::bench_training(options.asked(), {threads});
  if (options.json) {
    const nlohmann::ordered_json all{
        {"size", options.size},
        {"weights", options.weights},
        {"sequences", m.sequences},
        {"context", m.time},
        {"threads", threads.size()},
        {"recompute", options.recompute},
        {"tokens_per_s", m.tokens_per_second()},
        {"seconds_per_step", m.step_seconds()},
        {"gradient_seconds",
         {{"median", m.sane.median}, {"low", m.sane.low}, {"high", m.sane.high}}},
        {"gradient_seconds_without_sane",
         {{"median", m.baseline.median}, {"low", m.baseline.low}, {"high", m.baseline.high}}},
        {"update_seconds", m.update_seconds},
        {"flops_per_token", m.flops_per_token},
        {"product_gflops", m.product_flops_per_second / 1e9},
        {"fraction_of_products", m.of_products()},
        {"processor_seconds", m.processor_seconds},
        {"pairs", m.sane_cost.count},
        {"share_of_sane", share_json(m, m.sane_cost)},
        {"share_of_sane_in_whole_steps", share_json(m, m.whole_cost)}};
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print("{} {}, {} weights, {} x {} tokens, {}, float32\n", m.title, options.size,
             options.weights, m.sequences, m.time, counted(threads.size(), "thread"));
  fmt::print("{:.1f} tokens/s: {:.2f} s for loss and gradient, {:.2f} s for AdamW\n",
             m.tokens_per_second(), m.sane.median, m.update_seconds);
  fmt::print("{:.1f} % of the matrix-product rate of {:.1f} GFLOP/s\n", 100 * m.of_products(),
             m.product_flops_per_second / 1e9);
  fmt::print("SANE's part of a step: {}: {} pairs\n", share_text(m, m.sane_cost),
             m.sane_cost.count);
  fmt::print("  (by the time of whole steps {})\n", share_text(m, m.whole_cost));
  return 0;
}

int bench_train(BenchTrainOptions options) {
  const std::optional<int> gpu = device_named(options.device).gpu;
  if (options.size.empty()) options.size = gpu ? "0.4B" : "0.1B";
  if (options.sequences == 0) options.sequences = gpu ? 8 : 1;
  if (options.context == 0) options.context = gpu ? 4096 : 512;
  if (options.repeats == 0) options.repeats = gpu ? 9 : 15;
  if (options.sequences < 1 || options.context < 1 || options.repeats < 1)
    fail(Fault::usage, "bench train: expected --sequences, --context and --repeats of at least 1");
  if (!gpu) return bench_train_on_cpu(options);
  if constexpr (built_with_cuda)
    return bench_train_on_gpu(options, *gpu);
  else
    fail(Fault::device, "a build without CUDA names no GPU");
}

}  // namespace

train::TrainingBench BenchTrainOptions::asked() const {
  return {size,      train::bench_weights_named(weights),
          sequences, context,
          repeats,   recompute ? Activations::recompute : Activations::keep,
          architecture};
}

void describe_bench_train(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchTrainOptions>();
  CLI::App* app = parent.add_subcommand("train", "a training step: gradient and update");
  app->add_option("--device", options->device, "cpu or cuda[:n]")->capture_default_str();
  app->add_option("--architecture", options->architecture,
                  "of the model; a wrong --size names its sizes");
  app->add_option("--size", options->size,
                  "0.1B, 0.4B, 1.5B or 2.9B; default: 0.1B, and 0.4B on a GPU");
  app->add_option("--weights", options->weights,
                  "random: states are large, where SANE costs most; initial: as training begins")
      ->capture_default_str();
  app->add_option("--sequences", options->sequences, "rows of a batch; default: 1, and 8 on a GPU");
  app->add_option("--context", options->context,
                  "tokens of a row; default: 512, and 4096 on a GPU");
  app->add_option("--precision", options->precision, "bf16 or fp32, on a GPU")
      ->capture_default_str();
  app->add_option("--repeats", options->repeats,
                  "pairs of steps to measure, with SANE and without; default: 15, and 9 on a GPU");
  app->add_option("--threads", options->threads, "threads; 0: all processors")
      ->capture_default_str();
  app->add_flag("--recompute", options->recompute, "keep only each layer's input");
  app->add_flag("--json", options->json, "print JSON");
  app->footer(
      "Examples:\n  deltasane bench train --json > train.json\n"
      "  deltasane bench train --device cuda");
  app->callback([=] { *chosen = [options] { return bench_train(*options); }; });
}

}  // namespace deltasane::cli
