#include "kernel/matmul/few_rows/product.h"

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/norm/rms_reference.h"

namespace deltasane::kernel::cuda {
namespace {

struct ProductSizes {
  int64_t rows, outputs, columns, size = 0;  // size: of a head
  bool swiglu = false;
};

template <class Weight>
class GpuFewRowsProduct : public GpuTest {
 protected:
  using Input = FewRowsInput<Weight>;
  using InputKind = typename Input::Kind;
  static constexpr double eps = 1e-3;

  void check(InputKind kind, const ProductSizes& n, bool gated = true) {
    const int64_t step = n.columns + 8, results = n.swiglu ? n.outputs / 2 : n.outputs;
    const bool narrow = kind == InputKind::gated;
    const Numbers<float> matrix = random_numbers<Weight>(n.outputs * n.columns, 0.5, 1);
    const Numbers<float> x = narrow ? random_numbers<Weight>(n.rows * step, 1.5, 2)
                                    : random_numbers<float>(n.rows * step, 1.5, 2);
    const Numbers<float> gate = narrow ? random_numbers<Weight>(n.rows * step, 1, 3)
                                       : random_numbers<float>(n.rows * step, 1, 3);
    const Numbers<float> weight = random_numbers<float>(n.columns, 0.3, 4, 1);
    const Numbers<float> bias = random_numbers<float>(n.columns, 0.5, 5);
    const Numbers<float> before = random_numbers<float>(n.rows * results, 1, 6);

    const auto matrix_there = this->template upload<Weight>(matrix);
    const auto x_there = this->template upload<float>(x),
               gate_there = this->template upload<float>(gate);
    const auto narrow_x = this->template upload<Weight>(x),
               narrow_gate = this->template upload<Weight>(gate);
    const auto weight_there = this->template upload<float>(weight),
               bias_there = this->template upload<float>(bias);
    auto out = this->template upload<float>(before);
    FewRowsProduct<Weight> op;
    op.matrix = matrix_there.data(), op.rows = n.rows, op.outputs = n.outputs,
    op.columns = n.columns, op.swiglu = n.swiglu;
    op.input.kind = kind, op.input.step = step, op.out = out.data(), op.add = true;
    op.input.eps = float(eps), op.input.size = n.size;
    op.input.activation = narrow ? GateActivation::sigmoid : GateActivation::silu;
    if (narrow)
      op.input.narrow_x = narrow_x.data();
    else
      op.input.x = x_there.data();
    if (kind == InputKind::norm || kind == InputKind::head_norm) op.input.weight = weight_there.data();
    if (gated && narrow) op.input.narrow_gate = narrow_gate.data(), op.input.gate_step = step;
    if (gated && kind == InputKind::head_norm)
      op.input.gate = gate_there.data(), op.input.gate_bias = bias_there.data(),
      op.input.gate_step = step;
    few_rows_product(op, this->gpu());

    const auto definition = [&]<class T>() {
      const auto sigmoid = [](T z) { return T(1) / (T(1) + std::exp(-z)); };
      Numbers<T> y;
      for (int64_t r = 0; r < n.rows; ++r) {
        const float *const own = x.data() + r * step, *const g = gate.data() + r * step;
        Numbers<T> in(own, own + n.columns);
        const int64_t head = kind == InputKind::head_norm ? n.size : n.columns;
        for (int64_t c = 0; c < n.columns && op.input.weight; c += head) {
          const Numbers<T> w(weight.begin(), weight.begin() + head);
          const std::span<T> of(in.data() + c, size_t(head));
          reference::rms_norm<T>(Numbers<T>(of.begin(), of.end()), w, T(eps), of);
        }
        for (int64_t c = 0; c < n.columns; ++c) {
          T& value = in[size_t(c)];
          if (gated && narrow) value *= sigmoid(T(g[c]));
          if (gated && kind == InputKind::head_norm)
            value *= (T(g[c]) + T(bias[size_t(c)])) * sigmoid(T(g[c]) + T(bias[size_t(c)]));
        }
        const auto product = [&](int64_t o) {
          T sum = 0;
          for (int64_t c = 0; c < n.columns; ++c)
            sum += T(matrix[size_t(o * n.columns + c)]) * in[size_t(c)];
          return sum;
        };
        for (int64_t o = 0; o < results; ++o) {
          T value = product(o);
          if (n.swiglu) value *= sigmoid(value) * product(results + o);
          y.push_back(T(before[size_t(r * results + o)]) + value);
        }
      }
      return y;
    };
    this->expect_close("product", out, definition.template operator()<float>(),
                       definition.template operator()<double>());
  }
};
using Weights = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuFewRowsProduct, Weights);

TYPED_TEST(GpuFewRowsProduct, OfEveryInputIsTheDefinition) {
  using Kind = typename TestFixture::InputKind;
  for (const int64_t rows : {1, 2}) {
    this->check(Kind::plain, {rows, 37, 40});
    this->check(Kind::norm, {rows, 20, 264});
    this->check(Kind::gated, {rows, 9, 48});
    this->check(Kind::norm, {rows, 38, 264, 0, true});
    this->check(Kind::head_norm, {rows, 10, 48, 24});
    this->check(Kind::head_norm, {rows, 10, 512, 256}, false);
    for (const int64_t size : {32, 64, 128}) {
      this->check(Kind::head_norm, {rows, 10, 384, size});
      this->check(Kind::head_norm,
                  {rows, 10, size == 128 ? 136 : 3 * size, size == 128 ? 68 : size});
    }
  }
  this->check(Kind::gated, {1, 9, 48}, false);
}

// Matrices with more rows than blocks take at once, and inputs that are staged in parts.
TYPED_TEST(GpuFewRowsProduct, OfManyRowsOrColumnsIsTheDefinition) {
  using Kind = typename TestFixture::InputKind;
  this->check(Kind::norm, {1, 5000, 64});
  this->check(Kind::plain, {1, 20000, 64});
  this->check(Kind::plain, {2, 3000, 1544});
  this->check(Kind::norm, {1, 6022, 264, 0, true});
  this->check(Kind::norm, {2, 6022, 264, 0, true});
  this->check(Kind::norm, {1, 3, 17408});
  this->check(Kind::norm, {2, 1100, 5120});
  this->check(Kind::norm, {2, 3, 2560});
  this->check(Kind::head_norm, {2, 3, 2560, 128});
}

}  // namespace
}  // namespace deltasane::kernel::cuda
