// The array that kernels declare as `extern __shared__`, for the .cu file that is included after
// this one: they find it in their own namespace, which is kernel::cuda unless KERNELS says another.
#pragma once

#include <cuda_runtime.h>

#ifndef KERNELS
#define KERNELS kernel::cuda
#endif

namespace deltasane::KERNELS {
namespace {

alignas(128) float4 dynamic_shared[emulation::shared_bytes / sizeof(float4)];
[[maybe_unused]] const bool known =
    emulation::register_shared(dynamic_shared, sizeof(dynamic_shared));

}  // namespace
}  // namespace deltasane::KERNELS
