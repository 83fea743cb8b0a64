#include "kernel/embedding/cuda.h"

#include "kernel/norm/cuda_rows.cuh"

namespace deltasane::kernel::cuda {

void embed(const RowBlock& rows, const int32_t* tokens, const float* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  norm_rows<float, float>(rows.rows(), {table, tokens, 0, 1, rows.channels, weight, bias, eps, x},
                          gpu);
}
void embed(const RowBlock& rows, const int32_t* tokens, const bf16* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  norm_rows<bf16, float>(rows.rows(), {table, tokens, 0, 1, rows.channels, weight, bias, eps, x},
                         gpu);
}

}  // namespace deltasane::kernel::cuda
