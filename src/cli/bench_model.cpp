#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/timing.h"
#include "cli/bench_parts.h"
#include "cli/open_model.h"
#include "kernel/limits.h"

namespace deltasane::cli {
namespace {

struct BenchModelOptions {
  ModelFlags model;
  std::vector<int64_t> prompts{512, 2048}, batches{1};
  int64_t decode = 32;
  bool json = false;
};

// The largest resident memory of this process so far.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

struct ModelRow {
  std::string pass;
  int64_t tokens;  // per repeat
  Timing timing;
  double bytes, flops;  // per repeat: the least the maths needs

  double tokens_per_second() const { return double(tokens) / timing.median; }
  double most_per_second() const { return double(tokens) / timing.low; }
  double spread() const { return (timing.high - timing.low) / timing.median; }
};

class ModelBench {
 public:
  explicit ModelBench(const BenchModelOptions& options)
      : options_(options), open_(options.model), cpu_(open_.cpu()) {}

  const Rwkv7& model() const { return open_.model; }
  int threads() const { return open_.threads.size(); }
  kernel::MachineLimits limits() { return kernel::measure_limits(open_.threads, cpu_.isa); }

  std::vector<ModelRow> run() {
    std::vector<ModelRow> rows;
    for (const int64_t length : options_.prompts) rows.push_back(prompt(length));
    for (const int64_t batch : options_.batches) rows.push_back(decode(batch));
    return rows;
  }

 private:
  std::vector<int32_t> tokens(int64_t count) const {
    Random random(7);
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = int32_t(random.below(uint64_t(model().shape().vocabulary)));
    return ids;
  }

  // Multiply-adds of a token in the layers' matrices and in the head, and in the recurrence.
  double layer_flops() const {
    const Rwkv7Shape& s = model().shape();
    const double ranks = double(s.rank_w + s.rank_a + s.rank_v + s.rank_g);
    return double(s.layers) *
           (8.0 * double(s.channels * s.channels) + 4.0 * double(s.channels * s.feed_forward) +
            4.0 * double(s.channels) * ranks + 9.0 * double(s.channels * s.head_size));
  }
  double head_flops() const {
    return 2.0 * double(model().shape().channels * model().shape().vocabulary);
  }
  double state_bytes() const {
    const StateShape s = model().state_shape();
    return 8.0 * double(s.layers * s.channels * s.head_size);  // read and written
  }

  ModelRow prompt(int64_t length) {
    const std::vector<int32_t> ids = tokens(length);
    Tensor<float> logits({1, model().shape().vocabulary});
    const Timing timing = time_repeated(
        [&] {
          RecurrentState state = model().fresh_state();
          model().forward(ids, state, Rwkv7::Logits::last, logits.view(), cpu_);
        },
        1.0, 3);
    return {fmt::format("prompt {}", length), length, timing,
            double(model().read_bytes()) + state_bytes(),
            layer_flops() * double(length) + head_flops()};
  }

  ModelRow decode(int64_t batch) {
    const std::vector<int32_t> ids = tokens(batch * options_.decode);
    std::vector<RecurrentState> states;
    std::vector<RecurrentState*> places;
    for (int64_t i = 0; i < batch; ++i) states.push_back(model().fresh_state());
    for (RecurrentState& state : states) places.push_back(&state);
    Tensor<float> logits({batch, model().shape().vocabulary});
    const Timing timing = time_repeated(
        [&] {
          for (int64_t t = 0; t < options_.decode; ++t)
            model().step(std::span(ids).subspan(size_t(t * batch), size_t(batch)), places,
                         logits.view(), cpu_);
        },
        1.0, 3);
    const double steps = double(options_.decode);
    return {fmt::format("decode, batch {}", batch), batch * options_.decode, timing,
            steps * (double(model().read_bytes()) + double(batch) * state_bytes()),
            steps * double(batch) * (layer_flops() + head_flops())};
  }

  const BenchModelOptions& options_;
  OpenModel open_;
  kernel::Cpu cpu_;
};

int bench_model(const BenchModelOptions& options) {
  ModelBench bench(options);
  const std::vector<ModelRow> rows = bench.run();
  const double peak = peak_bytes(), weights = double(bench.model().weight_bytes());
  const kernel::MachineLimits limits = bench.limits();
  nlohmann::ordered_json all{{"model", options.model.path},
                             {"weights", bench.model().weight_type()},
                             {"sane", to_string(bench.model().sane())},
                             {"threads", bench.threads()},
                             {"read_gb_per_s", limits.read_bytes_per_second / 1e9},
                             {"multiply_add_gflops", limits.multiply_add_flops_per_second / 1e9},
                             {"weight_bytes", weights},
                             {"peak_resident_bytes", peak},
                             {"rows", nlohmann::ordered_json::array()}};
  for (const ModelRow& row : rows)
    all["rows"].push_back(
        {{"pass", row.pass},
         {"tokens_per_s", row.tokens_per_second()},
         {"best_tokens_per_s", row.most_per_second()},
         {"gb_per_s", row.bytes / row.timing.low / 1e9},
         {"gflops", row.flops / row.timing.low / 1e9},
         {"fraction_of_read", row.bytes / row.timing.low / limits.read_bytes_per_second},
         {"fraction_of_multiply_add",
          row.flops / row.timing.low / limits.multiply_add_flops_per_second},
         {"spread", row.spread()}});
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print(
      "{}, {}, {} thread(s); limits in this run: read {:.1f} GB/s, multiply-add {:.1f} GFLOP/s\n"
      "weights {:.0f} MB, largest resident memory {:.0f} MB\n\n{:<18} {:>9} {:>7} {:>7} {:>8} "
      "{:>7} "
      "{:>9} {:>7}\n",
      options.model.path, bench.model().weight_type(), bench.threads(),
      limits.read_bytes_per_second / 1e9, limits.multiply_add_flops_per_second / 1e9, weights / 1e6,
      peak / 1e6, "pass", "tokens/s", "best", "GB/s", "GFLOP/s", "% read", "% mul-add", "spread");
  for (const auto& row : all["rows"])
    fmt::print("{:<18} {:>9.1f} {:>7.1f} {:>7.2f} {:>8.1f} {:>7.1f} {:>9.1f} {:>6.0f}%\n",
               row["pass"].get<std::string>(), row["tokens_per_s"].get<double>(),
               row["best_tokens_per_s"].get<double>(), row["gb_per_s"].get<double>(),
               row["gflops"].get<double>(), 100 * row["fraction_of_read"].get<double>(),
               100 * row["fraction_of_multiply_add"].get<double>(),
               100 * row["spread"].get<double>());
  fmt::print(
      "\ntokens/s is the median of the repeats. The other columns are of the fastest one, as the "
      "limits are.\nBytes are the weights and states, read once a step; 8-bit products may exceed "
      "the multiply-add rate.\n");
  return 0;
}

}  // namespace

void describe_bench_model(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchModelOptions>();
  CLI::App* app = parent.add_subcommand("model", "a whole model: reading a prompt, writing tokens");
  options->model.describe(*app);
  app->add_option("--prompts", options->prompts, "lengths of the prompts")->capture_default_str();
  app->add_option("--batches", options->batches, "sequences written at a time")
      ->capture_default_str();
  app->add_option("--decode", options->decode, "tokens written per repeat")->capture_default_str();
  app->add_flag("--json", options->json, "print JSON");
  app->footer(
      "Example, with random weights:\n"
      "  deltasane bench weights 0.4B random-0.4b.gguf --type f16\n"
      "  deltasane bench model random-0.4b.gguf --threads 2 --batches 1 8");
  app->callback([=] { *chosen = [options] { return bench_model(*options); }; });
}

}  // namespace deltasane::cli
