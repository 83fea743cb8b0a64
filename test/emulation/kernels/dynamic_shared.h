// The array that kernels declare as `extern __shared__`, for the .cu file that is included after
// this one: they find it in their own namespace.
#pragma once

#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {
namespace {

alignas(128) float4 dynamic_shared[emulation::shared_bytes / sizeof(float4)];
[[maybe_unused]] const bool known =
    emulation::register_shared(dynamic_shared, sizeof(dynamic_shared));

}  // namespace
}  // namespace deltasane::kernel::cuda
