// The only way this project launches a kernel: the check cannot be forgotten. For .cu files.
#pragma once

#include <cuda_runtime.h>
#include <nv/target>

#include <array>
#include <utility>

#include "tensor/cuda/gpu.h"

namespace deltasane {

struct Grid {
  dim3 blocks, threads;
  size_t shared = 0;  // bytes beyond what the kernel declares
};

template <class... Param>
void allow_shared(void (*kernel)(Param...), const Grid& grid) {
  if (grid.shared > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, int(grid.shared)));
}

template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, CUstream_st* queue, Arg&&... arg) {
  allow_shared(kernel, grid);
  kernel<<<grid.blocks, grid.threads, grid.shared, queue>>>(std::forward<Arg>(arg)...);
  check_cuda(cudaGetLastError());
}
template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  launch(kernel, grid, gpu.stream(), std::forward<Arg>(arg)...);
}

template <size_t count, class... Param, class... Arg>
void launch_with(std::array<cudaLaunchAttribute, count> attributes, void (*kernel)(Param...),
                 const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  allow_shared(kernel, grid);
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks, config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared;
  config.stream = gpu.stream();
  config.attrs = attributes.data(), config.numAttrs = unsigned(count);
  check_cuda(cudaLaunchKernelEx(&config, kernel, Param(std::forward<Arg>(arg))...));
}

// The kernel may start while the one before it in the queue still runs. Every thread of it calls
// wait_for_kernel_before() before it touches what that one reads or writes. Where the GPU cannot do
// that (before compute capability 9.0) it starts as usual.
inline cudaLaunchAttribute may_start_early() {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  return early;
}
template <class... Param, class... Arg>
void launch_early(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  if (gpu.facts().capability < 90) return launch(kernel, grid, gpu, std::forward<Arg>(arg)...);
  launch_with(std::array{may_start_early()}, kernel, grid, gpu, std::forward<Arg>(arg)...);
}

// A multiprocessor that runs the kernel has all the shared memory it can have. Where blocks of two
// kernels are to run beside each other, both ask for it: one with another share would wait until
// the multiprocessor is free.
template <class... Param>
void keep_shared(void (*kernel)(Param...)) {
  check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
}

// All blocks of the kernel run at the same time, so that they may wait for each other. Fails where
// the GPU has not the room.
template <class... Param, class... Arg>
void launch_together(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  launch_with(std::array{together}, kernel, grid, gpu, std::forward<Arg>(arg)...);
}

// Each `size` neighbouring blocks are a cluster; the kernel may start early, as by launch_early.
// From compute capability 9.0 on.
template <class... Param, class... Arg>
void launch_cluster(void (*kernel)(Param...), const Grid& grid, unsigned size, const Gpu& gpu,
                    Arg&&... arg) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  launch_with(std::array{cluster, may_start_early()}, kernel, grid, gpu, std::forward<Arg>(arg)...);
}

// All that the kernel before has written is seen after this.
__device__ inline void wait_for_kernel_before() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}
// The kernel after this one may start, when all blocks have said so or ended.
__device__ inline void let_next_kernel_start() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

}  // namespace deltasane
