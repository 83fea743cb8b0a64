#include "kernel/limits.h"

#include <vector>

#include "base/timing.h"
#include "kernel/limits_loops.h"
#include "kernel/isa_dispatch.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

MachineLimits measure_limits(ThreadPool& threads, Isa isa) {
  MachineLimits limits;
  const int64_t pieces = threads.size();
  std::vector<float> kept(static_cast<size_t>(pieces) * 16);  // so that no loop can be dropped
  with_float_isa(isa, [&]<Isa I>() {
    constexpr int64_t floats = int64_t{64} << 20;  // 256 MiB: far beyond the caches
    Tensor<float> memory({floats});
    memory.fill(1.0f);
    const int64_t piece = floats / pieces / 256 * 256;
    const Timing read = time_repeated([&] {
      threads.parallel(pieces, [&](int64_t i) {
        kept[size_t(i) * 16] = cpu::read_all<I>(memory.data() + i * piece, piece);
      });
    });
    limits.read_bytes_per_second = double(pieces * piece) * sizeof(float) / read.low;

    constexpr int64_t rounds = 200000;
    const Timing multiply = time_repeated([&] {
      threads.parallel(pieces, [&](int64_t i) {
        kept[size_t(i) * 16] = cpu::multiply_add<I>(rounds, memory.data());
      });
    });
    limits.multiply_add_flops_per_second = double(pieces * rounds) * 2 * lanes_of(I) *
                                           double(cpu::multiply_adds_per_round(I)) / multiply.low;
  });
  return limits;
}

}  // namespace deltasane::kernel
