#include "kernel/cross_entropy/cpu.h"

#include "kernel/simd.h"

namespace deltasane::kernel::cpu {

template <Isa isa>
float largest_of_row(const float* x, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  float largest = x[0];
  int64_t c = 0;
  if (count >= lanes) {
    typename V::Vec most = V::load(x);
    for (c = lanes; c + lanes <= count; c += lanes) {
      const auto value = V::load(x + c);
      most = value > most ? value : most;
    }
    for (int i = 0; i < lanes; ++i) largest = most[i] > largest ? most[i] : largest;
  }
  for (; c < count; ++c) largest = x[c] > largest ? x[c] : largest;
  return largest;
}

template <Isa isa>
float exp_row(float* x, float largest, int64_t count) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  typename V::Vec sum = {};
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto e = V::exp_of_negative(V::load(x + c) - largest);
    V::store(x + c, e);
    sum += e;
  }
  if (c < count) {
    const int some = int(count - c);
    const auto e = V::exp_of_negative(V::load_some(x + c, some) - V::splat(largest));
    V::store_some(x + c, e, some);
    sum += V::first(e, some);
  }
  return V::sum(sum);
}

template <Isa isa>
void scale_row(float* x, float factor, int64_t count) {
  for (int64_t c = 0; c < count; ++c) x[c] *= factor;
}

template float largest_of_row<Isa::DELTASANE_ISA>(const float*, int64_t);
template float exp_row<Isa::DELTASANE_ISA>(float*, float, int64_t);
template void scale_row<Isa::DELTASANE_ISA>(float*, float, int64_t);

}  // namespace deltasane::kernel::cpu
