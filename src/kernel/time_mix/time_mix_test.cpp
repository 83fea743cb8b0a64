#include "kernel/time_mix/time_mix.h"

#include <utility>

#include "kernel/rows/row_test_case.h"
#include "kernel/time_mix/reference.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

Vector<float> floats(int64_t count, double scale, uint64_t stream) {
  return as<float>(normal_numbers(count, scale, stream));
}

// The first layer or another, and how keys are normalized: with an addend that shows.
const std::pair<bool, KeyNorm> input_cases[] = {{false, {}}, {true, {}}, {false, {2.0f, 0}}};

class TimeMixRows : public RowTest {};

TEST_P(TimeMixRows, InputsAreTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}})
    for (const auto& [first, key_norm] : input_cases) {
      const int64_t rows = 9, channels = heads * size, n = rows * channels;
      Vector<float> w = floats(n, 3, 1), a = floats(n, 3, 2), b(size_t(n), NAN),
                    k = floats(n, 1, 3), v = floats(n, 1, 4);
      const Vector<float> gate = floats(n, 1, 5), v_first = floats(n, 1, 6),
                          w0 = floats(channels, 3, 7), a0 = floats(channels, 1, 8),
                          v0 = floats(channels, 1, 9), k_k = floats(channels, 1, 10),
                          k_a = floats(channels, 1, 11);
      Vector<float> pw = w, pa = a, pb = b, pk = k, pv = v;
      Vector<double> tw = as<double>(w), ta = as<double>(a), tb = as<double>(b), tk = as<double>(k),
                     tv = as<double>(v);
      const Vector<double> dgate = as<double>(gate), dv_first = as<double>(v_first),
                           dw0 = as<double>(w0), da0 = as<double>(a0), dv0 = as<double>(v0),
                           dk_k = as<double>(k_k), dk_a = as<double>(k_a);
      const Shape shape{rows, channels};
      time_mix_inputs({size,
                       {w.data(), shape},
                       {a.data(), shape},
                       {b.data(), shape},
                       {k.data(), shape},
                       {v.data(), shape},
                       first ? View<const float>{} : View<const float>{gate.data(), shape},
                       first ? View<const float>{} : View<const float>{v_first.data(), shape},
                       w0.data(),
                       a0.data(),
                       v0.data(),
                       k_k.data(),
                       k_a.data(),
                       key_norm},
                      cpu());
      for (int64_t row = 0; row < rows; ++row) {
        const size_t at = size_t(row * channels), c = size_t(channels), some = first ? 0 : c;
        const auto part = [&](auto& x) { return std::span(x).subspan(at, c); };
        reference::time_mix_inputs<float>({size, part(pw), part(pa), part(pb), part(pk), part(pv),
                                           std::span(gate).subspan(at, some),
                                           std::span(v_first).subspan(at, some), w0, a0, v0, k_k,
                                           k_a, key_norm});
        reference::time_mix_inputs<double>({size, part(tw), part(ta), part(tb), part(tk), part(tv),
                                            std::span(dgate).subspan(at, some),
                                            std::span(dv_first).subspan(at, some), dw0, da0, dv0,
                                            dk_k, dk_a, key_norm});
      }
      expect_close("w", w, pw, tw);
      expect_close("a", a, pa, ta);
      expect_close("b", b, pb, tb);
      expect_close("k", k, pk, tk);
      expect_close("v", v, pv, tv);
    }
}

TEST_P(TimeMixRows, OutputIsTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}}) {
    const int64_t rows = 9, channels = heads * size, n = rows * channels;
    Vector<float> y = floats(n, 2, 1);
    const Vector<float> r = floats(n, 1, 2), k = floats(n, 1, 3), v = floats(n, 1, 4),
                        g = floats(n, 1, 5), weight = floats(channels, 1, 6),
                        bias = floats(channels, 1, 7), r_k = floats(channels, 1, 8);
    Vector<float> plain = y;
    Vector<double> truth = as<double>(y);
    const Vector<double> dr = as<double>(r), dk = as<double>(k), dv = as<double>(v),
                         dg = as<double>(g), dweight = as<double>(weight), dbias = as<double>(bias),
                         dr_k = as<double>(r_k);
    const Shape shape{rows, channels};
    time_mix_output({size,
                     {y.data(), shape},
                     {r.data(), shape},
                     {k.data(), shape},
                     {v.data(), shape},
                     {g.data(), shape},
                     weight.data(),
                     bias.data(),
                     r_k.data(),
                     64e-5f},
                    cpu());
    for (int64_t row = 0; row < rows; ++row) {
      const auto part = [&](auto& x) {
        return std::span(x).subspan(size_t(row * channels), size_t(channels));
      };
      reference::time_mix_output<float>(
          {size, part(plain), part(r), part(k), part(v), part(g), weight, bias, r_k, 64e-5f});
      reference::time_mix_output<double>({size, part(truth), part(dr), part(dk), part(dv), part(dg),
                                          dweight, dbias, dr_k, double(64e-5f)});
    }
    expect_close("y", y, plain, truth);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, TimeMixRows, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
