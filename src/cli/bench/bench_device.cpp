#include "cli/bench/bench_device.h"

#include "cli/counted.h"

#include <fmt/format.h>
#include <fstream>

#include "kernel/bench/gpu_limits.h"
#include "kernel/bench/cpu_limits.h"
#include "kernel/isa_dispatch.h"

namespace deltasane::cli {

DeviceLimits limits_of(const Gpu& gpu) {
  if constexpr (built_with_cuda) {
    const kernel::GpuLimits limits = kernel::measure_limits(gpu);
    return {"copy", "product", limits.copy_bytes_per_second, limits.product_flops_per_second};
  } else {
    require(false, "a build without CUDA has no GPU");
    return {};
  }
}

DeviceLimits limits_of(ThreadPool& threads, kernel::Isa isa) {
  const kernel::MachineLimits limits = kernel::measure_limits(threads, isa);
  return {"read", "multiply_add", limits.read_bytes_per_second,
          limits.multiply_add_flops_per_second};
}

DeviceLimits limits_of(OpenModel& open) {
  if constexpr (built_with_cuda)
    if (open.model.on_gpu()) return limits_of(Gpu(*open.model.device().gpu));
  return limits_of(open.threads, open.cpu().isa);
}

kernel::Isa chosen_isa(const std::string& name) {
  if (name.empty()) return kernel::best_isa();
  std::string known;
  for (const kernel::Isa isa : kernel::built_isas) {
    if (name == kernel::name_of(isa)) {
      kernel::expect_usable(isa);
      return isa;
    }
    known += cat(known.empty() ? "" : ", ", kernel::name_of(isa));
  }
  fail(Fault::usage, "--isa: expected one of ", known, ", found '", name, "'");
}

std::string device_text(const OpenModel& open) {
  if (open.model.on_gpu())
    return fmt::format("{}, {}", to_string(open.model.device()), open.model.gpu_name());
  return counted(open.threads.size(), "thread");
}

double state_bytes(const StateLayout& layout) {
  int64_t floats = 0;
  for (const StateHead& head : layout.heads()) floats += head.floats();
  return 8.0 * double(floats);
}

double resident_bytes(const OpenModel& open) {
  if (open.model.on_gpu()) return double(open.model.gpu_resident_bytes());
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

}  // namespace deltasane::cli
