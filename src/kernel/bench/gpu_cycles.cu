#include "kernel/bench/gpu_cycles.h"

#include <vector>

#include "base/timing.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel {
namespace {

constexpr unsigned blocks_on_each = 8;  // so that every multiprocessor runs some

__global__ void record_cycles(long long* counts, unsigned multiprocessors) {
  unsigned mine = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(mine));
  if (mine < multiprocessors) counts[mine] = clock64();
}

}  // namespace

CycleMark::CycleMark(const Gpu& gpu)
    : counts_(gpu, {gpu.properties().multiprocessors}, "cycle counts") {}

void CycleMark::record(const Gpu& gpu) {
  counts_.zero(gpu);
  const auto multiprocessors = unsigned(gpu.properties().multiprocessors);
  launch(record_cycles, {multiprocessors * blocks_on_each, 1}, gpu,
         reinterpret_cast<long long*>(counts_.data()), multiprocessors);
}

double CycleMark::cycles_since(const CycleMark& before, const Gpu& gpu) const {
  const Tensor<int64_t> from = before.counts_.on_host(gpu), to = counts_.on_host(gpu);
  std::vector<double> cycles;
  for (int64_t i = 0; i < to.elements(); ++i)
    if (from[i] && to[i]) cycles.push_back(double(to[i] - from[i]));
  require(!cycles.empty(), "cycles: expected a multiprocessor with counts at both points");
  return timing_of(cycles).median;
}

}  // namespace deltasane::kernel
