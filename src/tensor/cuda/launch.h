// The only way this project launches a kernel: the check cannot be forgotten. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "tensor/cuda/gpu.h"

namespace deltasane {

struct Grid {
  dim3 blocks, threads;
  size_t shared = 0;  // bytes beyond what the kernel declares
};

template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, CUstream_st* queue, Arg&&... arg) {
  if (grid.shared > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, int(grid.shared)));
  kernel<<<grid.blocks, grid.threads, grid.shared, queue>>>(std::forward<Arg>(arg)...);
  check_cuda(cudaGetLastError());
}
template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  launch(kernel, grid, gpu.stream(), std::forward<Arg>(arg)...);
}

}  // namespace deltasane
