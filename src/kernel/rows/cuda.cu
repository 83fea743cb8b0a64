#include "kernel/rows/cuda.h"

#include "kernel/rows/cuda_elements.cuh"

namespace deltasane::kernel::cuda {
namespace {

struct Sum {
  __device__ float operator()(float from, float to) const { return to + from; }
};

}  // namespace

template <class Real>
void add_rows(const float* from, Real* to, int64_t count, const Gpu& gpu) {
  over_elements(from, to, count, Sum(), gpu);
}

template void add_rows(const float*, float*, int64_t, const Gpu&);
template void add_rows(const float*, bf16*, int64_t, const Gpu&);

}  // namespace deltasane::kernel::cuda
