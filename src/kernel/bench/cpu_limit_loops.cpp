#include "kernel/bench/cpu_limit_loops.h"

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
float read_all(const float* from, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  typename V::Int sum[8] = {};
  for (int64_t i = 0; i < count; i += 8 * lanes)
#pragma GCC unroll 8
    for (int u = 0; u < 8; ++u) sum[u] ^= V::bits(V::load(from + i + u * lanes));
  int32_t all = 0;
  for (const auto& part : sum) all ^= V::largest(part);
  return float(all);
}

template <Isa isa>
float multiply_add(int64_t rounds, const float* operands) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  // side x side accumulators: enough to hide the latency, and with their factors they fit into the
  // registers. One side is loaded again each round, so that no product is hoisted out of the loop.
  constexpr int side = registers_of(isa) == 32 ? 4 : 3;
  typename V::Vec sum[side][side] = {}, x[side];
  for (int i = 0; i < side; ++i) x[i] = V::load(operands + i * lanes);
  for (int64_t round = 0; round < rounds; ++round) {
    const float* y = operands + round % 2 * lanes;
#pragma GCC unroll 4
    for (int j = 0; j < side; ++j) {
      const typename V::Vec yj = V::load(y + j * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < side; ++i) sum[i][j] += x[i] * yj;
    }
  }
  float all = 0;
  for (const auto& row : sum)
    for (const auto& one : row) all += V::sum(one);
  return all;
}

template float read_all<Isa::DELTASANE_ISA>(const float*, int64_t);
template float multiply_add<Isa::DELTASANE_ISA>(int64_t, const float*);

}  // namespace deltasane::kernel::cpu
