#include "python/ops/gpu_place.h"

#include <map>
#include <memory>
#include <mutex>

#include "kernel/delta_rule/cuda.h"
#include "tensor/cuda/current_gpu.h"

namespace deltasane::python {
namespace {

// The properties of a device are found once.
const Gpu& device_of(int index) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Gpu>> devices;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& found = devices[index];
  if (!found) found = std::make_unique<Gpu>(index);
  return *found;
}

}  // namespace

void run_at(const GpuPlace& place,
            const std::function<void(kernel::cuda::DeltaRuleScratch&, const Gpu&)>& body) {
  const CurrentGpu current(place.device);  // the caller's may be another
  const Gpu gpu(device_of(place.device), place.stream);
  kernel::cuda::DeltaRuleScratch scratch(place.allocate);
  body(scratch, gpu);
}

GpuPlace place_of(int device, uintptr_t stream, nanobind::handle allocate) {
  return {device, reinterpret_cast<CUstream_st*>(stream),
          [allocate](int64_t floats) { return pointer<float>(allocate(floats)); }};
}

}  // namespace deltasane::python
