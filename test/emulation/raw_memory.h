// The array that kernels declare as `extern __shared__`, for the file of them that is included
// after this one: they look for it in the namespace that they stand in.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {
namespace {

alignas(128) float4 raw_memory[emulation::shared_bytes / sizeof(float4)];
[[maybe_unused]] const bool known = emulation::share(raw_memory, sizeof(raw_memory));

}  // namespace
}  // namespace deltasane::kernel::cuda
