#include "tensor/cuda/current_gpu.h"

#include <cuda_runtime_api.h>

#include "tensor/cuda/gpu.h"

namespace deltasane {

CurrentGpu::CurrentGpu(int index) {
  check_cuda(cudaGetDevice(&before_));
  changed_ = before_ != index;
  if (changed_) check_cuda(cudaSetDevice(index));
}

CurrentGpu::~CurrentGpu() {
  if (changed_) cudaSetDevice(before_);
}

}  // namespace deltasane
