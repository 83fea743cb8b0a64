#include "kernel/matmul/gradient.h"

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/lines.h"
#include "kernel/matmul/tiled.h"

namespace deltasane::kernel {
namespace {

template <cpu::Lie a_lie>
void multiply(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
              Store store) {
  expect_lines("a", a);
  expect_lines("b", b);
  expect_lines("c", c);
  constexpr int m_at = a_lie == cpu::Lie::rows ? 0 : 1;
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
    multiply_tiled<isa, WeightType::f32, a_lie, cpu::Lie::columns>(product, cpu.threads);
  });
}

}  // namespace

void matmul_nn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store) {
  multiply<cpu::Lie::rows>(a, b, c, cpu, store);
}

void matmul_tn(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu,
               Store store) {
  multiply<cpu::Lie::columns>(a, b, c, cpu, store);
}

}  // namespace deltasane::kernel
