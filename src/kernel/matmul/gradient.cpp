#include "kernel/matmul/gradient.h"

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/cpu/expect_matrix.h"
#include "kernel/matmul/cpu/tiled.h"

namespace deltasane::kernel {
namespace {

template <cpu::Layout a_layout>
void multiply(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
              Store store) {
  expect_matrix("a", a);
  expect_matrix("b", b);
  expect_matrix("c", c);
  constexpr int m_at = a_layout == cpu::Layout::row_major ? 0 : 1;
  const int64_t m = a.shape[m_at], k = a.shape[1 - m_at], n = b.shape[1];
  expect_shape("b", b, {k, n});
  expect_shape("c", c, {m, n});
  if (k < 1) fail(Fault::argument, "a: expected sums of at least 1 product, found ", a.shape);
  const TiledProduct product{{a.data, a.stride[0]},
                             b.data,
                             b.stride[0],
                             m,
                             n,
                             k,
                             {c.data, c.stride[0]},
                             store == Store::add ? cpu::Sum::add : cpu::Sum::start};
  with_isa(cpu.isa, [&]<Isa isa>() {
    multiply_tiled<isa, WeightType::f32, a_layout, cpu::Layout::column_major>(product, cpu.threads);
  });
}

}  // namespace

void matmul_nn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store) {
  multiply<cpu::Layout::row_major>(a, b, c, cpu, store);
}

void matmul_tn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store) {
  multiply<cpu::Layout::column_major>(a, b, c, cpu, store);
}

}  // namespace deltasane::kernel
