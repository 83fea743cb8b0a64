// Sums of the columns of a matrix on a GPU, in an order that depends on the shape alone:
//
//     to[c / group] += sum over rows and the columns of c's group of x
//
// x    (rows, columns), packed, float or bf16
// to   (columns / group), float
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

template <class Real>
struct ColumnSums {
  int64_t rows = 0, columns = 0, group = 1;
  const Real* x = nullptr;
  float* to = nullptr;
  float* scratch = nullptr;  // column_sums_scratch() floats
};
int64_t column_sums_scratch(int64_t rows, int64_t columns);
template <class Real>
void column_sums(const ColumnSums<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
