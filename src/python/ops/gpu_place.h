// Where calls from Python run on a GPU: on the caller's stream, in memory that the caller allocates.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>

struct CUstream_st;

namespace deltasane {
class Gpu;
namespace kernel::cuda {
class DeltaRuleScratch;
}
}  // namespace deltasane

namespace deltasane::python {

struct GpuPlace {
  int device = 0;
  CUstream_st* stream = nullptr;
  std::function<float*(int64_t floats)> allocate;  // memory on the device until the call has ended
};

void run_at(const GpuPlace& place,
            const std::function<void(kernel::cuda::DeltaRuleScratch&, const Gpu&)>& body);

// What Python hands over: addresses as integers or None, a function that allocates as a callable.
template <class T>
T* pointer(nanobind::handle address) {
  return address.is_none() ? nullptr : reinterpret_cast<T*>(nanobind::cast<uintptr_t>(address));
}
// The place keeps no reference to `allocate`.
GpuPlace place_of(int device, uintptr_t stream, nanobind::handle allocate);

}  // namespace deltasane::python
