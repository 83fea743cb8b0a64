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
                        {grid.blocks.x, grid.blocks.y, grid.blocks.z}, grid.threads.x, grid.shared);
}

}  // namespace deltasane
