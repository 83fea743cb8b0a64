#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/processor_time.h"
#include "base/timing.h"
#include "cli/bench/bench_parts.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "model/registry.h"

namespace deltasane::cli {
namespace {

struct BenchLoadOptions {
  std::string path;
  int pairs = 10;
};

struct Cost {
  double seconds, processor_seconds;
};

Cost load(const std::string& path, Checksums checksums) {
  OpenOptions options;
  options.checksums = checksums;
  const double begin = seconds_now(), processor_begin = processor_seconds_now();
  open_model(path, options);
  return {seconds_now() - begin, processor_seconds_now() - processor_begin};
}

void print_ratio(const char* what, const std::vector<double>& ratios) {
  const MedianInterval found = median_interval(ratios);
  fmt::print("{}: checksums cost {:+.1f} % (95 %: {:+.1f} to {:+.1f}), {} pairs\n", what,
             100 * (found.median - 1), 100 * (found.low - 1), 100 * (found.high - 1), found.count);
}

int bench_load(const BenchLoadOptions& options) {
  if (const std::string format = open_checkpoint(options.path, true)->file().format(); format != "pth")
    fail(Fault::usage, options.path, ": expected a .pth, as other formats have no checksums, found ",
         format);
  load(options.path, Checksums::verify);  // the file is in memory from here on
  std::vector<Cost> with, without;
  in_pairs(options.pairs, [&](bool verify) {
    const Cost cost = load(options.path, verify ? Checksums::verify : Checksums::skip);
    (verify ? with : without).push_back(cost);
    fmt::print("{:<17}  {:.3f} s  {:.3f} s of processors\n",
               verify ? "with checksums" : "without checksums", cost.seconds,
               cost.processor_seconds);
    std::fflush(stdout);
  });
  std::vector<double> seconds, processor_seconds;
  for (size_t i = 0; i < with.size(); ++i) {
    seconds.push_back(with[i].seconds / without[i].seconds);
    processor_seconds.push_back(with[i].processor_seconds / without[i].processor_seconds);
  }
  print_ratio("seconds", seconds);
  print_ratio("seconds of processors", processor_seconds);
  return 0;
}

}  // namespace

void describe_bench_load(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchLoadOptions>();
  CLI::App* app = parent.add_subcommand(
      "load", "what verifying the checksums of a model file costs when it is opened");
  app->add_option("MODEL", options->path, "a .pth; other formats have no checksums")->required();
  app->add_option("--pairs", options->pairs, "open it so many times with and without")
      ->check(between(1, 1000))
      ->capture_default_str();
  app->footer(
      "Examples:\n  deltasane bench weights 0.4B random-0.4b.safetensors --type bf16\n"
      "  deltasane convert random-0.4b.safetensors random-0.4b.pth\n"
      "  deltasane bench load random-0.4b.pth");
  app->callback([=] { *chosen = [options] { return bench_load(*options); }; });
}

}  // namespace deltasane::cli
