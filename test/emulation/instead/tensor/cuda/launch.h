// Stands for the header of this name: a kernel has run when launch returns.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include "tensor/cuda/gpu.h"

namespace deltasane {

struct Grid {
  dim3 blocks, threads;
  size_t shared = 0;
};

template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, const Gpu&, Arg&&... arg) {
  emulation::run_kernel([&] { kernel(Param(arg)...); },
                        {grid.blocks.x, grid.blocks.y, grid.blocks.z},
                        {grid.threads.x, grid.threads.y, grid.threads.z}, grid.shared);
}

// What may run beside other kernels runs after those that were launched before.
template <class... Param, class... Arg>
void launch_early(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  launch(kernel, grid, gpu, arg...);
}
template <class... Param>
void keep_shared(void (*)(Param...)) {}
inline void wait_for_kernel_before() {}
inline void let_next_kernel_start() {}

}  // namespace deltasane
