#include "tensor/cuda/pinned.h"

#include <cuda_runtime_api.h>

#include "tensor/cuda/gpu.h"

namespace deltasane {

void* allocate_pinned(uint64_t bytes) {
  void* memory = nullptr;
  if (bytes) check_cuda(cudaMallocHost(&memory, bytes));
  return memory;
}

void free_pinned(void* memory) {
  if (memory) cudaFreeHost(memory);
}

}  // namespace deltasane
