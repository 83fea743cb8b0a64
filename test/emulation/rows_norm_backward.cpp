#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {
namespace {

alignas(128) uint4 shared[emulation::shared_bytes / sizeof(uint4)];
[[maybe_unused]] const bool known = emulation::share(shared, sizeof(shared));

}  // namespace
}  // namespace deltasane::kernel::cuda

#include "kernel/rwkv7/cuda_norm_backward.cu"
