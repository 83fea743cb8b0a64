#include "kernel/bench/gpu_limits.h"

#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "kernel/cuda/gpu_timing.h"
#include "kernel/matmul/cuda.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel {

GpuLimits measure_limits(const Gpu& gpu) {
  GpuLimits limits;
  {
    constexpr uint64_t bytes = uint64_t{1} << 30;
    const GpuBuffer from(gpu, bytes, "a copy"), to(gpu, bytes, "a copy");
    zero_on_gpu(from.data(), bytes, gpu);
    const Timing timing =
        time_on_gpu(gpu, [&] { copy_on_gpu(to.data(), from.data(), bytes, gpu); });
    limits.copy_bytes_per_second = 2 * double(bytes) / timing.median;
  }
  constexpr int64_t side = 8192;
  // Random numbers, different in every row: a product of equal numbers takes less power, and is
  // faster than any other.
  Random random(1);
  std::vector<bf16> numbers;
  for (int64_t i = 0; i < 2 * side; ++i) numbers.push_back(bf16(float(random.normal())));
  GpuTensor<bf16> a(gpu, {side, side}, "a product"), b(gpu, {side, side}, "a product"),
      c(gpu, {side, side}, "a product");
  for (int64_t i = 0; i < side; ++i) {
    copy_to_gpu(a.data() + i * side, numbers.data() + i * 31 % side, side * sizeof(bf16), gpu);
    copy_to_gpu(b.data() + i * side, numbers.data() + i * 57 % side, side * sizeof(bf16), gpu);
  }
  gpu.wait();
  cuda::Products products(gpu);
  const Timing timing = time_on_gpu(gpu, [&] {
    products.multiply<bf16, bf16>(
        {cuda::Products::Form::nt, side, side, side, a.data(), b.data(), c.data()});
  });
  limits.product_flops_per_second =
      2.0 * double(side) * double(side) * double(side) / timing.median;
  return limits;
}

}  // namespace deltasane::kernel
