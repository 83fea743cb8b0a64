#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "kernel/isa_dispatch.h"
#include "kernel/bench/cpu_limits.h"

namespace deltasane::cli {
namespace {

struct MachineOptions {
  int threads = 0;
  bool json = false;
};

// That kernels are built for, narrow to wide.
std::vector<std::string> usable_sets() {
  std::vector<std::string> names;
  for (const kernel::Isa isa : kernel::built_isas)
    if (kernel::usable(isa)) names.emplace_back(kernel::name_of(isa));
  return names;
}

int show_machine(const MachineOptions& options) {
  ThreadPool threads(options.threads);
  const kernel::Isa isa = kernel::best_isa();
  const kernel::MachineLimits limits = kernel::measure_limits(threads, isa);
  const double gb = limits.read_bytes_per_second / 1e9;
  const double gflops = limits.multiply_add_flops_per_second / 1e9;
  if (options.json) {
    const nlohmann::ordered_json found{{"instruction_set", kernel::name_of(isa)},
                                       {"instruction_sets", usable_sets()},
                                       {"threads", threads.size()},
                                       {"read_gb_per_s", gb},
                                       {"multiply_add_gflops", gflops}};
    fmt::print("{}\n", found.dump(2));
    return 0;
  }
  fmt::print("instruction set      {}\n", kernel::name_of(isa));
  fmt::print("it has               {}\n", fmt::join(usable_sets(), ", "));
  fmt::print("threads              {}\n", threads.size());
  fmt::print("plain memory read    {:.1f} GB/s\n", gb);
  fmt::print("plain multiply-add   {:.1f} GFLOP/s\n", gflops);
  return 0;
}

}  // namespace

const Command machine{"machine",
                      "measured memory bandwidth and arithmetic peak of this machine",
                      [](CLI::App& app) {
                        auto options = std::make_shared<MachineOptions>();
                        app.add_option("--threads", options->threads, "threads; 0: all processors")
                            ->capture_default_str();
                        app.add_flag("--json", options->json, "print JSON");
                        app.footer("Example:\n  deltasane machine --threads 1");
                        return [options] { return show_machine(*options); };
                      }};

}  // namespace deltasane::cli
