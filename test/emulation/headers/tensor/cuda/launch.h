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

// A dependent kernel runs after the one before it.
template <class... Param, class... Arg>
void launch_dependent(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  launch(kernel, grid, gpu, arg...);
}
template <class... Param, class... Arg>
void launch_cooperative(void (*kernel)(Param...), const Grid& grid, const Gpu&, Arg&&... arg) {
  emulation::run_resident([&] { kernel(Param(arg)...); }, grid.blocks.x,
                          {grid.threads.x, grid.threads.y, grid.threads.z}, grid.shared);
}
template <class... Param>
int64_t local_bytes(void (*)(Param...)) {
  return 0;
}
template <class... Param>
void prefer_shared_carveout(void (*)(Param...)) {}
inline void grid_dependency_synchronize() {}
inline void trigger_dependent_launch() {}

}  // namespace deltasane
