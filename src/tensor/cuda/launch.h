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
void allow_dynamic_shared(void (*kernel)(Param...), const Grid& grid) {
  if (grid.shared > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, int(grid.shared)));
}

// Local memory of each of a kernel's threads: registers that did not suffice, and arrays.
template <class... Param>
int64_t local_bytes(void (*kernel)(Param...)) {
  cudaFuncAttributes found{};
  check_cuda(cudaFuncGetAttributes(&found, reinterpret_cast<const void*>(kernel)));
  return int64_t(found.localSizeBytes);
}

template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, CUstream_st* stream, Arg&&... arg) {
  allow_dynamic_shared(kernel, grid);
  kernel<<<grid.blocks, grid.threads, grid.shared, stream>>>(std::forward<Arg>(arg)...);
  check_cuda(cudaGetLastError());
}
template <class... Param, class... Arg>
void launch(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  launch(kernel, grid, gpu.stream(), std::forward<Arg>(arg)...);
}

template <size_t count, class... Param, class... Arg>
void launch_with_attributes(std::array<cudaLaunchAttribute, count> attributes,
                            void (*kernel)(Param...), const Grid& grid, const Gpu& gpu,
                            Arg&&... arg) {
  allow_dynamic_shared(kernel, grid);
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks, config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared;
  config.stream = gpu.stream();
  config.attrs = attributes.data(), config.numAttrs = unsigned(count);
  check_cuda(cudaLaunchKernelEx(&config, kernel, Param(std::forward<Arg>(arg))...));
}

// Programmatic dependent launch: the kernel may start while the one before it in the stream still
// runs. Every thread of it calls grid_dependency_synchronize() before it touches what that one
// reads or writes. Before compute capability 9.0 it starts as usual.
inline cudaLaunchAttribute programmatic_serialization() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}
template <class... Param, class... Arg>
void launch_dependent(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  if (gpu.properties().capability < 90) return launch(kernel, grid, gpu, std::forward<Arg>(arg)...);
  launch_with_attributes(std::array{programmatic_serialization()}, kernel, grid, gpu,
                         std::forward<Arg>(arg)...);
}

// The kernel runs with the largest shared-memory carveout. Where blocks of two kernels are to run
// on one multiprocessor, both need it: a kernel with another carveout waits until the
// multiprocessor is idle.
template <class... Param>
void prefer_shared_carveout(void (*kernel)(Param...)) {
  check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
}

// A cooperative launch: all blocks are resident at once, so that they may wait for each other.
// Fails if they do not fit on the GPU.
template <class... Param, class... Arg>
void launch_cooperative(void (*kernel)(Param...), const Grid& grid, const Gpu& gpu, Arg&&... arg) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  launch_with_attributes(std::array{cooperative}, kernel, grid, gpu, std::forward<Arg>(arg)...);
}

// Each `size` neighbouring blocks are a cluster; a dependent launch, as launch_dependent. From
// compute capability 9.0 on.
template <class... Param, class... Arg>
void launch_cluster(void (*kernel)(Param...), const Grid& grid, unsigned size, const Gpu& gpu,
                    Arg&&... arg) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  launch_with_attributes(std::array{cluster, programmatic_serialization()}, kernel, grid, gpu,
                         std::forward<Arg>(arg)...);
}

// Until the kernel before has ended; what it wrote is visible after this.
__device__ inline void grid_dependency_synchronize() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}
// The dependent kernel may start when all blocks have called this or ended.
__device__ inline void trigger_dependent_launch() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

}  // namespace deltasane
