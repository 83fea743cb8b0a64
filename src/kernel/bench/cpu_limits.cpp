#include "kernel/bench/cpu_limits.h"

#include <algorithm>
#include <vector>

#include "base/timing.h"
#include "kernel/bench/cpu_limit_loops.h"
#include "kernel/isa_dispatch.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

double multiply_add_flops_per_second_now(ThreadPool& threads, Isa isa) {
  constexpr int64_t rounds = 200000;
  static const std::vector<float> operands(1024, 1.0f);
  const int64_t pieces = threads.size();
  std::vector<float> kept(size_t(pieces) * 16);  // so that no loop is optimised away
  double flops = 0;
  const double begin = seconds_now();
  with_float_isa(isa, [&]<Isa I>() {
    threads.parallel(pieces, [&](int64_t i) {
      kept[size_t(i) * 16] = cpu::multiply_add<I>(rounds, operands.data());
    });
    flops = double(pieces * rounds) * 2 * lanes_of(I) * double(cpu::multiply_adds_per_round(I));
  });
  return flops / (seconds_now() - begin);
}

MachineLimits measure_limits(ThreadPool& threads, Isa isa) {
  MachineLimits limits;
  const int64_t pieces = threads.size();
  std::vector<float> kept(static_cast<size_t>(pieces) * 16);  // so that no loop is optimised away
  with_float_isa(isa, [&]<Isa I>() {
    constexpr int64_t floats = int64_t{64} << 20;  // 256 MiB: far larger than the caches
    Tensor<float> memory({floats});
    memory.fill(1.0f);
    const int64_t piece = floats / pieces / 256 * 256;
    const Timing read = time_repeated([&] {
      threads.parallel(pieces, [&](int64_t i) {
        kept[size_t(i) * 16] = cpu::read_all<I>(memory.data() + i * piece, piece);
      });
    });
    limits.read_bytes_per_second = double(pieces * piece) * sizeof(float) / read.low;
  });
  const double begin = seconds_now();
  while (seconds_now() - begin < 0.3)
    limits.multiply_add_flops_per_second = std::max(
        limits.multiply_add_flops_per_second, multiply_add_flops_per_second_now(threads, isa));
  return limits;
}

}  // namespace deltasane::kernel
