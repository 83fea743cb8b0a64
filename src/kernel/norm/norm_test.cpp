#include "kernel/norm/norm.h"

#include "kernel/norm/reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

template <class Real>
struct NormCase {
  Vector<Real> x, weight, dy, dx, dweight, dbias;
  explicit NormCase(int64_t rows, int64_t c)
      : x(as<Real>(normal_numbers(rows * c, 2, 1))),
        weight(as<Real>(normal_numbers(c, 1, 2))),
        dy(as<Real>(normal_numbers(rows * c, 1, 3))),
        dx(as<Real>(normal_numbers(rows * c, 1, 4))),
        dweight(size_t(c)),
        dbias(size_t(c)) {}
  void backward(int64_t rows) {
    const size_t c = weight.size();
    for (size_t i = 0; i < size_t(rows); ++i)
      reference::layer_norm_backward<Real>({std::span(x).subspan(i * c, c), weight, Real(1e-5f),
                                            std::span(dy).subspan(i * c, c),
                                            std::span(dx).subspan(i * c, c), dweight, dbias});
  }
};

TEST(LayerNormDefinition, GradientIsThatOfCentralDifferences) {
  NormCase<double> o(1, 9), found = o;
  found.dx.assign(9, 0.0);
  found.backward(1);
  Vector<double> bias(9, 0.3);
  const auto loss = [&] {
    Vector<double> y(9);
    reference::layer_norm<double>(o.x, o.weight, bias, double(1e-5f), y);
    return dot(o.dy, y);
  };
  expect_gradient("x", o.x, found.dx, loss);
  expect_gradient("weight", o.weight, found.dweight, loss);
  expect_gradient("bias", bias, found.dbias, loss);
}

class LayerNorm : public RowTest {};

TEST_P(LayerNorm, IsTheDefinition) {
  for (const int64_t channels : {1, 7, 64, 100, 768}) {
    const int64_t rows = 19;
    const Vector<double> xd = normal_numbers(rows * channels, 3, 1),
                         wd = normal_numbers(channels, 1, 2), bd = normal_numbers(channels, 1, 3);
    const Vector<float> x = as<float>(xd), weight = as<float>(wd), bias = as<float>(bd);
    Vector<float> found(x.size(), NAN), plain = found;
    Vector<double> truth(x.size());
    layer_norm({x.data(), {rows, channels}}, weight.data(), bias.data(), 1e-5f,
               {found.data(), {rows, channels}}, cpu());
    for (int64_t row = 0; row < rows; ++row) {
      const size_t at = size_t(row * channels), n = size_t(channels);
      reference::layer_norm<float>(std::span(x).subspan(at, n), weight, bias, 1e-5f,
                                   std::span(plain).subspan(at, n));
      reference::layer_norm<double>(std::span(xd).subspan(at, n), wd, bd, double(1e-5f),
                                    std::span(truth).subspan(at, n));
    }
    expect_close("layer_norm", found, plain, truth);
  }
}

TEST_P(LayerNorm, GradientIsTheDefinition) {
  for (const int64_t c : {3, 7, 64, 100}) {  // one channel alone is all rounding
    const int64_t rows = 37;
    NormCase<float> found(rows, c), plain = found;
    NormCase<double> truth(rows, c);
    layer_norm_backward({{found.x.data(), {rows, c}},
                         found.weight.data(),
                         1e-5f,
                         {found.dy.data(), {rows, c}},
                         {found.dx.data(), {rows, c}},
                         found.dweight.data(),
                         found.dbias.data()},
                        cpu());
    plain.backward(rows);
    truth.backward(rows);
    expect_close("dx", found.dx, plain.dx, truth.dx);
    expect_close("dweight", found.dweight, plain.dweight, truth.dweight);
    expect_close("dbias", found.dbias, plain.dbias, truth.dbias);
  }
}

TEST_P(LayerNorm, WrongShapesAreNamed) {
  Vector<float> x(20);
  EXPECT_FAULT(layer_norm({x.data(), {4, 5}}, x.data(), x.data(), 1e-5f, {x.data(), {5, 4}}, cpu()),
               Fault::argument, "y: expected shape (4, 5), found (5, 4)");
}

INSTANTIATE_TEST_SUITE_P(Isas, LayerNorm, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
