#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/timing.h"
#include "cli/bench/bench_device.h"
#include "cli/bench/bench_parts.h"
#include "infer/state_scan.h"

namespace deltasane::cli {
namespace {

struct BenchStreamOptions {
  ModelFlags model;
  int64_t tokens = 0;
  bool json = false;
};

struct StreamMeasurement {
  int64_t tokens = 0;
  double seconds = 0, loss = 0, largest = 0;
  double resident_first = 0, resident_last = 0;  // after the first block, and at the end
};

// Reads as `deltasane stream` does: losses of all tokens, the state copied and looked at between
// blocks. Unmeasured before that: one block, so that memory and plans are there.
StreamMeasurement measure(OpenModel& open, int64_t tokens) {
  const LanguageModel& model = open.model;
  const int64_t block = model.prefill_chunk();
  Random random(7);
  std::vector<int32_t> ids(size_t(block) + 1);
  for (int32_t& id : ids) id = int32_t(random.below(uint64_t(model.vocabulary())));
  std::vector<double> losses(static_cast<size_t>(block));
  TauRecord taus(*model.state_layout());
  SequenceState state = model.fresh_state();
  StreamMeasurement found;
  const auto read = [&](int64_t some) {
    const SequenceState before = state.clone();
    const double sum = deltasane::score(model, std::span(ids).first(size_t(some)),
                             std::span(ids).subspan(1, size_t(some)), state,
                             std::span(losses).first(size_t(some)), open.cpu(),
                             model.sane().kind == SaneKind::none ? nullptr : &taus);
    const StateScan scan = scan_state(state);
    if (!scan.finite())
      fail(Fault::overflow, overflow_message(*scan.not_finite, state.position - 1));
    found.largest = double(scan.largest);
    return sum;
  };
  read(std::min(block, tokens));
  found.resident_first = resident_bytes(open);
  const double begun = seconds_now();
  while (found.tokens < tokens) {
    const int64_t some = std::min(block, tokens - found.tokens);
    found.loss += read(some);
    found.tokens += some;
  }
  found.seconds = seconds_now() - begun;
  found.loss /= double(found.tokens);
  found.resident_last = resident_bytes(open);
  return found;
}

int bench_stream(const BenchStreamOptions& options) {
  OpenModel open(options.model);
  const int64_t tokens =
      options.tokens ? options.tokens : (open.model.on_gpu() ? int64_t(1) << 20 : 1024);
  if (tokens < 1) fail(Fault::usage, "bench stream: expected --tokens of at least 1");
  const StreamMeasurement found = measure(open, tokens);
  const DeviceLimits limits = limits_of(open);
  const double rate = double(found.tokens) / found.seconds;
  const double flops = rate * (open.model.description().layer_flops + open.model.description().head_flops);
  if (options.json) {
    nlohmann::ordered_json all{
        {"model", options.model.path},
        {"device", device_text(open)},
        {"weights", open.model.weight_type()},
        {"sane", to_string(open.model.sane())},
        {"tokens", found.tokens},
        {"seconds", found.seconds},
        {"tokens_per_s", rate},
        {"loss", found.loss},
        {"largest", found.largest},
        {"gflops", flops / 1e9},
        {limits.flops_name + "_gflops", limits.flops_per_second / 1e9},
        {"fraction_of_" + limits.flops_name, flops / limits.flops_per_second},
        {"resident_bytes_after_first_block", found.resident_first},
        {"resident_bytes", found.resident_last}};
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print("{}, {}, {}, {}\n", options.model.path, open.model.weight_type(), device_text(open),
             to_string(open.model.sane()));
  fmt::print("{:.0f} tokens/s: {} tokens with their losses in {:.2f} s\n", rate, found.tokens,
             found.seconds);
  fmt::print("{:.1f} GFLOP/s, {:.1f} % of the {} rate in this run; |S| up to {:.3g}\n", flops / 1e9,
             100 * flops / limits.flops_per_second, limits.flops_name, found.largest);
  fmt::print("memory {:.0f} MB after the first block, {:.0f} MB at the end\n",
             found.resident_first / 1e6, found.resident_last / 1e6);
  return 0;
}

}  // namespace

void describe_bench_stream(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchStreamOptions>();
  CLI::App* app = parent.add_subcommand("stream", "one long stream with its losses");
  options->model.describe(*app);
  app->add_option("--tokens", options->tokens, "to read; if not given 1024, on a GPU 1048576");
  app->add_flag("--json", options->json, "print JSON");
  app->footer(
      "Example, with random weights:\n"
      "  deltasane bench weights 0.4B random-0.4b.gguf --type bf16\n"
      "  deltasane bench stream random-0.4b.gguf --device cuda --sane-alpha 3");
  app->callback([=] { *chosen = [options] { return bench_stream(*options); }; });
}

}  // namespace deltasane::cli
