#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json/array_at.h"
#include "base/random.h"
#include "base/timing.h"
#include "cli/bench/bench_device.h"
#include "cli/bench/bench_parts.h"

namespace deltasane::cli {
namespace {

struct BenchModelOptions {
  ModelFlags model;
  std::vector<int64_t> prompts, batches;
  int64_t decode = 32, ragged = 0;
  std::string isa;
  bool json = false;
};

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
      : options_(options), open_(options.model), cpu_{open_.threads, chosen_isa(options.isa)} {
    if (options_.prompts.empty()) options_.prompts = {512, 2048};
    if (options.prompts.empty() && model().on_gpu()) options_.prompts.push_back(16384);
    if (options_.batches.empty()) options_.batches = {1};
    if (options.batches.empty() && model().on_gpu()) options_.batches.push_back(256);
  }

  const LanguageModel& model() const { return open_.model; }
  OpenModel& open() { return open_; }

  std::vector<ModelRow> run() {
    std::vector<ModelRow> rows;
    for (const int64_t length : options_.prompts) rows.push_back(prompt(length));
    if (options_.ragged > 0) {
      rows.push_back(prompts_in_turn());
      rows.push_back(prompts_at_once());
    }
    for (const int64_t batch : options_.batches) {
      rows.push_back(decode(batch));
      if (model().on_gpu()) rows.push_back(decode_and_sample(batch));
    }
    return rows;
  }

 private:
  std::vector<int32_t> tokens(int64_t count) const {
    Random random(7);
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = int32_t(random.below(uint64_t(model().vocabulary())));
    return ids;
  }

  ModelRow prompt(int64_t length) {
    const std::vector<int32_t> ids = tokens(length);
    Tensor<float> logits = model().allocate_logits(1);
    const Timing timing = time_repeated(
        [&] {
          SequenceState state = model().fresh_state();
          model().forward({ids, &state, Want::last_logits, logits.view()}, cpu_);
        },
        1.0, 3);
    return {fmt::format("prompt {}", length), length, timing,
            double(model().read_bytes()) + state_bytes(*model().state_layout()),
            model().description().layer_flops * double(length) + model().description().head_flops};
  }

  // Prompts of 16 to 2,048 tokens, evenly spread by the logarithm; each wants its last logits.
  struct Ragged {
    std::vector<int32_t> ids;
    std::vector<SequenceState> states;
    Tensor<float> logits;
    std::vector<SequenceInput> inputs;
    int64_t tokens = 0;
  };
  Ragged ragged() const {
    constexpr double shortest = 16, longest = 2048;
    Ragged made{tokens(int64_t(longest)), fresh_states(options_.ragged),
                model().allocate_logits(options_.ragged), {}};
    for (int64_t i = 0; i < options_.ragged; ++i) {
      const double share = double(i) / double(std::max<int64_t>(1, options_.ragged - 1));
      const auto length = size_t(shortest * std::pow(longest / shortest, share) + 0.5);
      made.inputs.push_back({std::span(made.ids).first(length), &made.states[size_t(i)],
                             Want::last_logits, made.logits.view().slice(0, i, 1)});
      made.tokens += int64_t(length);
    }
    return made;
  }
  ModelRow ragged_row(const char* how, const Ragged& made, const std::function<void()>& body) {
    const Timing timing = time_repeated(body, 1.0, 3);
    const ModelDescription& d = model().description();
    return {fmt::format("{} prompts {}", options_.ragged, how), made.tokens, timing,
            double(model().read_bytes()) +
                double(options_.ragged) * state_bytes(*model().state_layout()),
            d.layer_flops * double(made.tokens) + d.head_flops * double(options_.ragged)};
  }
  ModelRow prompts_in_turn() {
    Ragged made = ragged();
    return ragged_row("in turn", made, [&] {
      for (SequenceState& state : made.states) state = model().fresh_state();
      for (const SequenceInput& input : made.inputs) model().forward(input, cpu_);
    });
  }
  ModelRow prompts_at_once() {
    Ragged made = ragged();
    return ragged_row("at once", made, [&] {
      for (SequenceState& state : made.states) state = model().fresh_state();
      model().forward(made.inputs, cpu_);
    });
  }

  // Logits come to the host.
  ModelRow decode(int64_t batch) {
    const std::vector<int32_t> ids = tokens(batch * options_.decode);
    Tensor<float> logits = model().allocate_logits(batch);
    std::vector<SequenceState> states = fresh_states(batch);
    std::vector<SequenceInput> inputs;
    for (int64_t i = 0; i < batch; ++i)
      inputs.push_back({{}, &states[size_t(i)], Want::last_logits, logits.view().slice(0, i, 1)});
    return decode_row(fmt::format("decode, batch {}", batch), batch, [&] {
      for (int64_t t = 0; t < options_.decode; ++t) {
        for (int64_t i = 0; i < batch; ++i) inputs[size_t(i)].tokens = {&ids[size_t(t * batch + i)], 1};
        model().forward(inputs, cpu_);
      }
    });
  }

  // Each sequence continues with the token that its sampler drew, as `deltasane eval` does it.
  ModelRow decode_and_sample(int64_t batch) {
    std::vector<int32_t> ids = tokens(batch);
    std::vector<SequenceState> states = fresh_states(batch);
    std::vector<Sampler> samplers;
    for (int64_t i = 0; i < batch; ++i) samplers.emplace_back(SamplerSettings(), uint64_t(i));
    std::vector<kernel::SampledToken> sampled{size_t(batch)};
    std::vector<SequenceInput> inputs;
    for (size_t i = 0; i < ids.size(); ++i) {
      inputs.push_back({{&ids[i], 1}, &states[i], Want::sample});
      inputs.back().sampler = &samplers[i], inputs.back().sampled = &sampled[i];
    }
    return decode_row(fmt::format("decode and sample, batch {}", batch), batch, [&] {
      for (int64_t t = 0; t < options_.decode; ++t) {
        model().forward(inputs, cpu_);
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = std::max(sampled[i].token, 0);
      }
    });
  }

  std::vector<SequenceState> fresh_states(int64_t count) const {
    std::vector<SequenceState> states;
    for (int64_t i = 0; i < count; ++i) states.push_back(model().fresh_state());
    return states;
  }

  ModelRow decode_row(const std::string& pass, int64_t batch, const std::function<void()>& body) {
    const Timing timing = time_repeated(body, 1.0, 3);
    const double steps = double(options_.decode);
    return {
        pass, batch * options_.decode, timing,
        steps * (double(model().read_bytes()) + double(batch) * state_bytes(*model().state_layout())),
        steps * double(batch) * (model().description().layer_flops + model().description().head_flops)};
  }

  BenchModelOptions options_;
  OpenModel open_;
  kernel::Cpu cpu_;
};

int bench_model(const BenchModelOptions& options) {
  ModelBench bench(options);
  const std::vector<ModelRow> rows = bench.run();
  const double peak = resident_bytes(bench.open());
  const double weights = double(bench.model().weight_bytes());
  const DeviceLimits limits = limits_of(bench.open());
  nlohmann::ordered_json all{{"model", options.model.path},
                             {"weights", bench.model().weight_type()},
                             {"sane", to_string(bench.model().sane())},
                             {"device", to_string(bench.model().device())},
                             {"threads", bench.open().threads.size()},
                             {"instruction_set", kernel::name_of(chosen_isa(options.isa))},
                             {limits.bytes_name + "_gb_per_s", limits.bytes_per_second / 1e9},
                             {limits.flops_name + "_gflops", limits.flops_per_second / 1e9},
                             {"weight_bytes", weights},
                             {"peak_resident_bytes", peak},
                             {"rows", nlohmann::ordered_json::array()}};
  const std::string of_bytes = "fraction_of_" + limits.bytes_name;
  const std::string of_flops = "fraction_of_" + limits.flops_name;
  for (const ModelRow& row : rows)
    array_at(all, "rows")
        .push_back({{"pass", row.pass},
                    {"tokens_per_s", row.tokens_per_second()},
                    {"best_tokens_per_s", row.most_per_second()},
                    {"gb_per_s", row.bytes / row.timing.low / 1e9},
                    {"gflops", row.flops / row.timing.low / 1e9},
                    {of_bytes, row.bytes / row.timing.low / limits.bytes_per_second},
                    {of_flops, row.flops / row.timing.low / limits.flops_per_second},
                    {"spread", row.spread()}});
  if (options.json) {
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print(
      "{}, {}, {}; limits in this run: {} {:.1f} GB/s, {} {:.1f} GFLOP/s\n"
      "weights {:.0f} MB, largest resident memory {:.0f} MB\n\n{:<26} {:>9} {:>9} {:>7} {:>8} "
      "{:>7} {:>9} {:>7}\n",
      options.model.path, bench.model().weight_type(), device_text(bench.open()), limits.bytes_name,
      limits.bytes_per_second / 1e9, limits.flops_name, limits.flops_per_second / 1e9,
      weights / 1e6, peak / 1e6, "pass", "tokens/s", "best", "GB/s", "GFLOP/s", "% bytes",
      "% flops", "spread");
  for (const auto& row : all["rows"])
    fmt::print("{:<26} {:>9.1f} {:>9.1f} {:>7.2f} {:>8.1f} {:>7.1f} {:>9.1f} {:>6.0f}%\n",
               row["pass"].get<std::string>(), row["tokens_per_s"].get<double>(),
               row["best_tokens_per_s"].get<double>(), row["gb_per_s"].get<double>(),
               row["gflops"].get<double>(), 100 * row[of_bytes].get<double>(),
               100 * row[of_flops].get<double>(), 100 * row["spread"].get<double>());
  fmt::print(
      "\ntokens/s is the median of the repeats. The other columns are of the fastest one, as the "
      "limits are.\nBytes are the weights and states, read once a step; 8-bit products may exceed "
      "the multiply-add rate.\n");
  return 0;
}

}  // namespace

void describe_bench_model(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchModelOptions>();
  CLI::App* app = parent.add_subcommand(
      "model", "a whole model: reading a prompt, writing tokens, on a GPU sampling them too");
  options->model.describe(*app);
  app->add_option("--prompts", options->prompts,
                  "lengths of the prompts; if not given 512 2048, on a GPU 16384 too");
  app->add_option("--batches", options->batches,
                  "sequences written at a time; if not given 1, on a GPU 256 too");
  app->add_option("--ragged", options->ragged,
                  "so many prompts of 16 to 2048 tokens, one after the other and in one call")
      ->capture_default_str();
  app->add_option("--decode", options->decode, "tokens written per repeat")->capture_default_str();
  app->add_option("--isa", options->isa,
                  "instruction set of the processor; if not given the widest it has");
  app->add_flag("--json", options->json, "print JSON");
  app->footer(
      "Example, with random weights:\n"
      "  deltasane bench weights 0.4B random-0.4b.gguf --type f16\n"
      "  deltasane bench model random-0.4b.gguf --threads 2 --batches 1 8");
  app->callback([=] { *chosen = [options] { return bench_model(*options); }; });
}

}  // namespace deltasane::cli
