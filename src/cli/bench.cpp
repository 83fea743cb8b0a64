#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench_train.h"
#include "cli/command.h"
#include "kernel/delta_rule/bench.h"
#include "kernel/delta_rule/check.h"
#include "kernel/isa_dispatch.h"
#include "kernel/limits.h"

namespace deltasane::cli {
namespace {

struct BenchOptions {
  int threads = 0;
  std::string isa;
  bool json = false;
};

kernel::Isa chosen_isa(const std::string& name) {
  if (name.empty()) return kernel::best_isa();
  std::string known;
  for (const kernel::Isa isa : kernel::built_isas) {
    if (name == kernel::name_of(isa)) return isa;
    known += cat(known.empty() ? "" : ", ", kernel::name_of(isa));
  }
  fail(Fault::usage, "--isa: expected one of ", known, ", found '", name, "'");
}

// No speed without correctness: the operator's checks on the instruction set to be measured.
void check_first(ThreadPool& threads, kernel::Isa isa) {
  uint64_t seed = 1;
  for (const kernel::ProblemShape& shape : kernel::delta_rule_cases(kernel::Rule::rwkv7))
    for (const std::string& fault : kernel::check_delta_rule(shape, seed++, threads, {&isa, 1}))
      fail(Fault::argument,
           "bench kernel: the operator's check failed, so nothing is measured: ", fault);
}

struct BenchRow {
  const kernel::DeltaRuleMeasurement& measured;
  const kernel::MachineLimits& limits;

  double seconds() const { return measured.timing.median; }
  double tokens_per_second() const { return measured.tokens() / seconds(); }
  double microseconds_per_head() const {
    return seconds() * 1e6 / (measured.tokens() * double(measured.heads));
  }
  double bytes_per_second() const { return measured.bytes / seconds(); }
  double flops_per_second() const { return measured.flops / seconds(); }
  double of_read() const { return bytes_per_second() / limits.read_bytes_per_second; }
  double of_multiply_add() const {
    return flops_per_second() / limits.multiply_add_flops_per_second;
  }
  double spread() const {
    return (measured.timing.high - measured.timing.low) / measured.timing.median;
  }
};

nlohmann::ordered_json as_json(const BenchRow& row) {
  const kernel::DeltaRuleMeasurement& m = row.measured;
  return {{"kernel", "delta_rule"},
          {"pass", m.pass},
          {"sane", m.sane},
          {"batch", m.batch},
          {"time", m.time},
          {"heads", m.heads},
          {"head_size", m.channels},
          {"seconds", row.seconds()},
          {"spread", row.spread()},
          {"repeats", m.timing.repeats},
          {"tokens_per_s", row.tokens_per_second()},
          {"us_per_head_and_token", row.microseconds_per_head()},
          {"gb_per_s", row.bytes_per_second() / 1e9},
          {"gflops", row.flops_per_second() / 1e9},
          {"fraction_of_read", row.of_read()},
          {"fraction_of_multiply_add", row.of_multiply_add()}};
}

int bench_kernel(const BenchOptions& options) {
  ThreadPool threads(options.threads);
  const kernel::Isa isa = chosen_isa(options.isa);
  check_first(threads, isa);
  const kernel::MachineLimits limits = kernel::measure_limits(threads, isa);
  const auto measurements = kernel::bench_delta_rule({threads, isa});
  if (options.json) {
    nlohmann::ordered_json all{{"instruction_set", kernel::name_of(isa)},
                               {"threads", threads.size()},
                               {"read_gb_per_s", limits.read_bytes_per_second / 1e9},
                               {"multiply_add_gflops", limits.multiply_add_flops_per_second / 1e9},
                               {"rows", nlohmann::ordered_json::array()}};
    for (const auto& measured : measurements) all["rows"].push_back(as_json({measured, limits}));
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print(
      "delta_rule, rwkv7, head size 64, {}, {} thread(s); limits in this run: read {:.1f} "
      "GB/s, multiply-add {:.1f} GFLOP/s\n\n",
      kernel::name_of(isa), threads.size(), limits.read_bytes_per_second / 1e9,
      limits.multiply_add_flops_per_second / 1e9);
  fmt::print("{:<9} {:<5} {:>13} {:>11} {:>12} {:>7} {:>8} {:>7} {:>8} {:>7}\n", "pass", "SANE",
             "(B,T,H)", "tokens/s", "us/head,tok", "GB/s", "GFLOP/s", "% read", "% mul-add",
             "spread");
  for (const auto& measured : measurements) {
    const BenchRow row{measured, limits};
    fmt::print(
        "{:<9} {:<5} {:>13} {:>11.0f} {:>12.3f} {:>7.2f} {:>8.1f} {:>7.1f} {:>9.1f} {:>6.0f}%\n",
        measured.pass, measured.sane ? "yes" : "no",
        fmt::format("({},{},{})", measured.batch, measured.time, measured.heads),
        row.tokens_per_second(), row.microseconds_per_head(), row.bytes_per_second() / 1e9,
        row.flops_per_second() / 1e9, 100 * row.of_read(), 100 * row.of_multiply_add(),
        100 * row.spread());
  }
  fmt::print(
      "\nBytes and operations are the least the maths needs: inputs read once, outputs "
      "written once,\n9 operations per state entry and token forward, 19 backward.\n");
  return 0;
}

}  // namespace

const Command bench{
    "bench", "measure speed against this machine's limits", [](CLI::App& app) {
      auto options = std::make_shared<BenchOptions>();
      app.require_subcommand(1);
      CLI::App* of_kernel =
          app.add_subcommand("kernel", "the delta-rule recurrence: forward, backward, single step");
      of_kernel->add_option("--threads", options->threads, "threads; 0: all processors")
          ->capture_default_str();
      of_kernel->add_option("--isa", options->isa, "instruction set; the widest one if not given");
      of_kernel->add_flag("--json", options->json, "print JSON");
      of_kernel->footer(
          "Examples:\n  deltasane bench kernel --threads 1\n"
          "  deltasane bench kernel --json > kernel.json");
      CLI::App* of_train = app.add_subcommand("train", "a training step: gradient and update");
      const std::function<int()> train_bench = describe_bench_train(*of_train);
      return [options, of_train, train_bench] {
        return of_train->parsed() ? train_bench() : bench_kernel(*options);
      };
    }};

}  // namespace deltasane::cli
