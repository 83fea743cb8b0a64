#include "kernel/cuda/gpu_timing.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace deltasane::kernel {

Timing time_on_gpu(const Gpu& gpu, const std::function<void()>& body, int repeats) {
  require(repeats > 0, "timing: expected at least one repeat");
  for (int i = 0; i < 3; ++i) body();
  std::vector<TimedGpuEvent> at(size_t(repeats) + 1);
  at[0].record(gpu);
  for (size_t i = 1; i < at.size(); ++i) {
    body();
    at[i].record(gpu);
  }
  gpu.wait();
  std::vector<double> seconds;
  for (size_t i = 1; i < at.size(); ++i)
    seconds.push_back(at[i].milliseconds_since(at[i - 1]) * 1e-3);
  return timing_of(std::move(seconds));
}

}  // namespace deltasane::kernel
