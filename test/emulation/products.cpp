// Stands for kernel/matmul/cuda.cpp: products by their definition, in double.
#include <algorithm>

#include "kernel/matmul/cuda.h"

namespace deltasane::kernel::cuda {

struct Products::State {};
Products::Products(const Gpu&, int, uint64_t) {}
Products::~Products() = default;

template <class In, class Out>
void Products::multiply(const Product<In, Out>& p) {
  for (int64_t one = 0; one < p.count; ++one)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          const int64_t a = p.form == Form::tn ? l * p.m + i : i * p.k + l;
          const int64_t b = p.form == Form::nt ? j * p.k + l : l * p.n + j;
          sum += double(float(p.a[one * p.stride_a + a])) * double(float(p.b[one * p.stride_b + b]));
        }
        const int64_t at = one * p.stride_c + i * p.n + j;
        if (p.addend) sum += double(float(p.addend[at]));
        if (p.add) sum += double(float(p.c[at]));
        p.c[at] = Out(float(sum));
      }
}
template void Products::multiply(const Product<float, float>&);
template void Products::multiply(const Product<bf16, bf16>&);
template void Products::multiply(const Product<bf16, float>&);

}  // namespace deltasane::kernel::cuda
