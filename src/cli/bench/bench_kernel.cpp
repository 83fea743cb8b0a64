#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/array_at.h"
#include "cli/bench/bench_device.h"
#include "cli/bench/bench_parts.h"
#include "cli/counted.h"
#include "kernel/delta_rule/bench/bench.h"
#include "kernel/delta_rule/bench/check.h"
#include "kernel/delta_rule/bench/cuda_bench.h"
#include "kernel/delta_rule/bench/cuda_check.h"
#include "kernel/delta_rule/bench/gated_check.h"
#include "kernel/bench/gpu_operators.h"

namespace deltasane::cli {
namespace {

struct BenchKernelOptions {
  int threads = 0;
  std::string isa, device = "cpu";
  double tau = kernel::usual_tau;
  std::string rule = "generalized";
  int64_t keys = 128, values = 128;  // of a head, for the other rules
  bool json = false;
};

// The rules that run on a GPU, by the names of their papers.
kernel::Rule chosen_rule(const std::string& name) {
  if (name == "generalized") return kernel::Rule::generalized;
  if (name == "deltanet") return kernel::Rule::deltanet;
  if (name == "gated_deltanet") return kernel::Rule::gated_deltanet;
  if (name == "kda") return kernel::Rule::kda;
  fail(Fault::usage, "--rule: expected generalized, deltanet, gated_deltanet or kda, found '", name, "'");
}

// No speed without correctness: the operator's checks on what is to be measured.
void expect_no_fault(const std::vector<std::string>& faults) {
  if (!faults.empty())
    fail(Fault::argument,
         "bench kernel: the operator's check failed, so nothing is measured: ", faults.front());
}

// What is printed before the rows, and the rows.
struct KernelBench {
  std::string device;
  nlohmann::ordered_json facts;  // of the device
  DeviceLimits limits;
  std::vector<kernel::DeltaRuleMeasurement> measurements;
  std::vector<kernel::GpuOperatorMeasurement> operators;  // beside it; none on a CPU
};

KernelBench bench_on_cpu(const BenchKernelOptions& options) {
  ThreadPool threads(options.threads);
  const kernel::Isa isa = chosen_isa(options.isa);
  uint64_t seed = 1;
  for (const kernel::ProblemShape& shape : kernel::delta_rule_cases(kernel::Rule::generalized))
    expect_no_fault(kernel::check_delta_rule(shape, seed++, threads, {&isa, 1}));
  const DeviceLimits limits = limits_of(threads, isa);
  return {fmt::format("{}, {}", kernel::name_of(isa), counted(threads.size(), "thread")),
          {{"instruction_set", kernel::name_of(isa)}, {"threads", threads.size()}},
          limits,
          kernel::bench_delta_rule({threads, isa}, options.tau),
          {}};
}

KernelBench bench_on_gpu(int index, const BenchKernelOptions& options) {
  if constexpr (built_with_cuda) {
    const Gpu gpu(index);
    uint64_t seed = 1;
    const kernel::Rule rule = chosen_rule(options.rule);
    if (rule != kernel::Rule::generalized) {
      for (kernel::cuda::GatedShape& shape :
           kernel::cuda::gated_cases(rule, options.keys, options.values))
        expect_no_fault(kernel::cuda::check_gated(
            shape, seed++, kernel::cuda::Checked::forward_and_backward, gpu));
      return {fmt::format("{}, bf16 in and out", gpu.properties().name),
              {{"gpu", gpu.properties().name}},
              limits_of(gpu),
              kernel::cuda::bench_gated(gpu, rule, options.keys, options.values, options.tau),
              {}};
    }
    for (const kernel::cuda::TauRange& taus : kernel::cuda::gpu_delta_rule_taus)
      for (const kernel::ProblemShape& shape : kernel::cuda::gpu_delta_rule_cases(gpu, taus))
        expect_no_fault(kernel::cuda::check_delta_rule<bf16>(shape, seed++, gpu));
    const DeviceLimits limits = limits_of(gpu);
    return {fmt::format("{}, bf16 in and out", gpu.properties().name),
            {{"gpu", gpu.properties().name}},
            limits,
            kernel::cuda::bench_delta_rule(gpu, options.tau),
            kernel::bench_gpu_operators(gpu)};
  } else {
    require(false, "a device of another build is refused where it is named");
    return {};
  }
}

// What was reached, against the limits. Times are of the median repeat; rates are of the fastest
// one, as the limits are.
struct Rates {
  Timing timing;
  double bytes, flops;
  const DeviceLimits& limits;

  double seconds() const { return timing.median; }
  double bytes_per_second() const { return bytes / timing.low; }
  double flops_per_second() const { return flops / timing.low; }
  double of_bytes() const { return bytes_per_second() / limits.bytes_per_second; }
  double of_flops() const { return flops_per_second() / limits.flops_per_second; }
  double spread() const { return (timing.high - timing.low) / timing.median; }
};

struct BenchRow : Rates {
  const kernel::DeltaRuleMeasurement& measured;

  BenchRow(const kernel::DeltaRuleMeasurement& m, const DeviceLimits& of_device)
      : Rates{m.timing, m.bytes, m.flops, of_device}, measured(m) {}
  double tokens_per_second() const { return measured.tokens() / seconds(); }
  double of_flops() const {
    return measured.share_of_limit > 0 ? measured.share_of_limit : Rates::of_flops();
  }
  double microseconds_per_head() const {
    return seconds() * 1e6 / (measured.tokens() * double(measured.heads));
  }
};

nlohmann::ordered_json as_json(const BenchRow& row) {
  const kernel::DeltaRuleMeasurement& m = row.measured;
  nlohmann::ordered_json json{{"kernel", "delta_rule"},
                              {"pass", m.pass},
                              {"sane", m.sane},
                              {"batch", m.batch},
                              {"time", m.time},
                              {"heads", m.heads},
                              {"head_size", m.channels},
                              {"value_size", m.values ? m.values : m.channels},
                              {"seconds", row.seconds()},
                              {"fastest_seconds", row.timing.low},
                              {"spread", row.spread()},
                              {"repeats", m.timing.repeats},
                              {"left_out", m.left_out},
                              {"tokens_per_s", row.tokens_per_second()},
                              {"us_per_head_and_token", row.microseconds_per_head()},
                              {"gb_per_s", row.bytes_per_second() / 1e9},
                              {"gflops", row.flops_per_second() / 1e9},
                              {"fraction_of_" + row.limits.bytes_name, row.of_bytes()},
                              {"fraction_of_" + row.limits.flops_name, row.of_flops()}};
  if (const std::optional<MedianInterval>& cost = m.sane_cost)
    json["sane_cost"] = {{"median", cost->median},
                         {"low_95", cost->low},
                         {"high_95", cost->high},
                         {"pairs", cost->count}};
  return json;
}
// In percent; of few pairs there is no interval.
std::string as_text(const std::optional<MedianInterval>& cost) {
  if (!cost) return "";
  if (cost->count < 6) return fmt::format("{:.1f} ({})", 100 * cost->median, counted(cost->count, "pair"));
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", 100 * cost->median, 100 * cost->low,
                     100 * cost->high);
}

Rates rates_of(const kernel::GpuOperatorMeasurement& m, const DeviceLimits& limits) {
  return {m.timing, m.bytes, m.flops, limits};
}

nlohmann::ordered_json as_json(const kernel::GpuOperatorMeasurement& measured,
                               const DeviceLimits& limits) {
  const Rates rates = rates_of(measured, limits);
  nlohmann::ordered_json json{{"operator", measured.operation},
                              {"seconds", rates.seconds()},
                              {"fastest_seconds", rates.timing.low},
                              {"spread", rates.spread()},
                              {"repeats", measured.timing.repeats},
                              {"bytes", measured.bytes},
                              {"gb_per_s", rates.bytes_per_second() / 1e9},
                              {"fraction_of_" + limits.bytes_name, rates.of_bytes()}};
  if (measured.flops == 0) return json;
  json["flops"] = measured.flops;
  json["gflops"] = rates.flops_per_second() / 1e9;
  json["fraction_of_" + limits.flops_name] = rates.of_flops();
  return json;
}

void print_operators(const KernelBench& bench) {
  fmt::print("\n{:<52} {:>9} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7}\n", "operator", "ms", "MB", "GB/s",
             "% bytes", "TFLOP/s", "% flops", "spread");
  for (const auto& measured : bench.operators) {
    const Rates row = rates_of(measured, bench.limits);
    const bool has_flops = measured.flops > 0;
    fmt::print("{:<52} {:>9.3f} {:>9.1f} {:>9.1f} {:>7.1f} {:>9} {:>7} {:>6.0f}%\n",
               measured.operation, 1e3 * row.seconds(), measured.bytes / 1e6,
               row.bytes_per_second() / 1e9, 100 * row.of_bytes(),
               has_flops ? fmt::format("{:.1f}", row.flops_per_second() / 1e12) : "-",
               has_flops ? fmt::format("{:.1f}", 100 * row.of_flops()) : "-", 100 * row.spread());
  }
}

int bench_kernel(const BenchKernelOptions& options) {
  if (!(options.tau > 0))
    fail(Fault::usage, "--tau: expected a number above 0, found ", options.tau);
  const Device device = device_named(options.device);
  const bool generalized = chosen_rule(options.rule) == kernel::Rule::generalized;
  if (!generalized && !device.gpu)
    fail(Fault::usage, "--rule ", options.rule, ": expected --device cuda, found ", options.device);
  const KernelBench bench =
      device.gpu ? bench_on_gpu(*device.gpu, options) : bench_on_cpu(options);
  const DeviceLimits& limits = bench.limits;
  if (options.json) {
    nlohmann::ordered_json all = bench.facts;
    all["tau"] = options.tau;
    all["rule"] = options.rule;
    all[limits.bytes_name + "_gb_per_s"] = limits.bytes_per_second / 1e9;
    all[limits.flops_name + "_gflops"] = limits.flops_per_second / 1e9;
    all["rows"] = nlohmann::ordered_json::array();
    for (const auto& measured : bench.measurements)
      array_at(all, "rows").push_back(as_json(BenchRow{measured, limits}));
    if (!bench.operators.empty()) all["operators"] = nlohmann::ordered_json::array();
    for (const auto& measured : bench.operators)
      array_at(all, "operators").push_back(as_json(measured, limits));
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  fmt::print(
      "delta_rule, {}, heads of {} x {}, {}; tau {}; limits in this run: {} {:.1f} GB/s, {} {:.1f} "
      "GFLOP/s\n\n",
      options.rule, generalized ? 64 : options.keys, generalized ? 64 : options.values, bench.device, options.tau, limits.bytes_name, limits.bytes_per_second / 1e9,
      limits.flops_name, limits.flops_per_second / 1e9);
  fmt::print("{:<14} {:<5} {:>13} {:>11} {:>9} {:>12} {:>7} {:>8} {:>7} {:>8} {:>7}  {}\n", "pass",
             "SANE", "(B,T,H)", "tokens/s", "ms", "us/head,tok", "GB/s", "GFLOP/s", "% bytes",
             "% flops", "spread", "SANE adds %");
  for (const auto& measured : bench.measurements) {
    const BenchRow row{measured, limits};
    fmt::print(
        "{:<14} {:<5} {:>13} {:>11.0f} {:>9.3f} {:>12.4f} {:>7.1f} {:>8.1f} {:>7.1f} {:>8.1f} "
        "{:>6.0f}%  {}\n",
        measured.pass, measured.sane ? "yes" : "no",
        fmt::format("({},{},{})", measured.batch, measured.time, measured.heads),
        row.tokens_per_second(), 1e3 * row.seconds(), row.microseconds_per_head(),
        row.bytes_per_second() / 1e9, row.flops_per_second() / 1e9, 100 * row.of_bytes(),
        100 * row.of_flops(), 100 * row.spread(), as_text(measured.sane_cost));
  }
  fmt::print(
      "\nWhat SANE adds is the median of neighbours with and without it; in 95 of 100 runs the "
      "true "
      "one lies within the\nbrackets. tokens/s, ms and us are of the median repeat, GB/s and "
      "GFLOP/s of the fastest one.{}\n"
      "Bytes and operations are the least the maths needs: inputs read once, outputs "
      "written once,\n{} operations per state entry and token forward, {} backward.\n",
      device.gpu ? ""
                 : " % flops is the median of each\nrepeat against the limit just before and after "
                   "it; repeats around which that was far from its best are left out.",
      generalized ? kernel::forward_flops : kernel::gated_forward_flops,
      generalized ? kernel::backward_flops : kernel::gated_backward_flops);
  if (!bench.operators.empty()) print_operators(bench);
  return 0;
}

}  // namespace

void describe_bench_kernel(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchKernelOptions>();
  CLI::App* app =
      parent.add_subcommand("kernel",
                            "the delta-rule recurrence: forward, backward, single step; on a GPU "
                            "the other operators too");
  app->add_option("--device", options->device, "cpu or cuda[:n]")->capture_default_str();
  app->add_option("--threads", options->threads, "threads; 0: all processors")
      ->capture_default_str();
  app->add_option("--isa", options->isa, "instruction set; the widest one if not given");
  app->add_option(
         "--tau", options->tau,
         "SANE's: the smaller it is, the larger are states beside it, and some take longer")
      ->capture_default_str();
  app->add_option("--rule", options->rule,
                  "generalized; on a GPU also deltanet, gated_deltanet, kda (Kimi "
                  "Delta Attention)")
      ->capture_default_str();
  app->add_option("--keys", options->keys,
                  "key channels of a head of those rules: 64, 96, 128 or 256")
      ->capture_default_str();
  app->add_option("--values", options->values, "value channels of a head: a multiple of 32")
      ->capture_default_str();
  app->add_flag("--json", options->json, "print JSON");
  app->footer(
      "Examples:\n  deltasane bench kernel --threads 1\n"
      "  deltasane bench kernel --device cuda\n"
      "  deltasane bench kernel --device cuda --tau 0.3\n"
      "  deltasane bench kernel --device cuda --rule kda --keys 128 --values 128\n"
      "  deltasane bench kernel --json > kernel.json");
  app->callback([=] { *chosen = [options] { return bench_kernel(*options); }; });
}

}  // namespace deltasane::cli
