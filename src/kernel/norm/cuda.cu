#include "kernel/norm/cuda.h"

#include "kernel/norm/cuda_rows.cuh"

namespace deltasane::kernel::cuda {

template <class Real>
void layer_norm(const RowBlock& rows, const float* x, const float* weight, const float* bias,
                float eps, Real* y, const Gpu& gpu) {
  require(weight && bias, "a layer norm has a weight and a bias");
  norm_rows<float, Real>(rows.rows(), {x, nullptr, 0, 1, rows.channels, weight, bias, eps, y}, gpu);
}

template void layer_norm(const RowBlock&, const float*, const float*, const float*, float, float*,
                         const Gpu&);
template void layer_norm(const RowBlock&, const float*, const float*, const float*, float, bf16*,
                         const Gpu&);

}  // namespace deltasane::kernel::cuda
