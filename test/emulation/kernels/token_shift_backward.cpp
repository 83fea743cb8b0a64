#include <cuda_runtime.h>

namespace deltasane::kernel::cuda {
namespace {

alignas(128) uint4 shared[emulation::shared_bytes / sizeof(uint4)];
[[maybe_unused]] const bool known = emulation::register_shared(shared, sizeof(shared));

}  // namespace
}  // namespace deltasane::kernel::cuda

#include "kernel/token_shift/cuda_backward.cu"
