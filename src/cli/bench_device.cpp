#include "cli/bench_device.h"

#include <fmt/format.h>
#include <fstream>

#include "kernel/gpu_limits.h"
#include "kernel/limits.h"
#include "model/rwkv7/gpu/model.h"

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

std::string device_text(const OpenModel& open) {
  if (const Rwkv7OnGpu* const gpu = open.model.on_gpu())
    return fmt::format("{}, {}", to_string(open.model.device()), gpu->gpu_name());
  return fmt::format("{} thread(s)", open.threads.size());
}

double layer_flops(const Rwkv7Shape& s) {
  const double ranks = double(s.rank_w + s.rank_a + s.rank_v + s.rank_g);
  return double(s.layers) *
         (8.0 * double(s.channels * s.channels) + 4.0 * double(s.channels * s.feed_forward) +
          4.0 * double(s.channels) * ranks + 9.0 * double(s.channels * s.head_size));
}
double head_flops(const Rwkv7Shape& s) { return 2.0 * double(s.channels * s.vocabulary); }
double state_bytes(const StateShape& s) {
  return 8.0 * double(s.layers * s.channels * s.head_size);
}

double resident_bytes(const OpenModel& open) {
  if (const Rwkv7OnGpu* const gpu = open.model.on_gpu()) return double(gpu->resident_bytes());
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

}  // namespace deltasane::cli
