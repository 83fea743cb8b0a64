#include "kernel/norm/heads_cuda/rms_backward.h"

#include "kernel/activation/reference.h"
#include "kernel/norm/rms_reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

struct NormCase {
  int64_t rows, heads, size;
  bool gated, present;
};
// A head of a warp and of a block, sizes that eight divides and not, more heads than blocks.
const NormCase norm_cases[] = {{7, 1, 64, false, false},   {5, 3, 20, true, false},
                               {3, 2, 128, true, false},   {9, 1, 1024, false, true},
                               {3, 1, 513, false, false},  {2, 1, 3000, false, true},
                               {9000, 1, 16, true, false}, {1100, 1, 520, false, false},
                               {40, 2, 512, true, false},  {9, 1, 768, true, false},
                               {600, 1, 1032, false, true}};

template <class T>
struct NormGradients {
  Numbers<T> dx, dweight, dgate;
};
struct NormInputs {
  Numbers<float> x, weight, gate, bias, dy, before;
  Numbers<uint8_t> present;
  template <class T>
  NormGradients<T> definition(const NormCase& n) const {
    const Numbers<T> xs = as<T>(x), ws = as<T>(weight), gates = as<T>(gate), dys = as<T>(dy);
    NormGradients<T> d{as<T>(before), Numbers<T>(weight.size(), T(0.5f)), Numbers<T>(gate.size())};
    for (int64_t head = 0; head < n.rows * n.heads; ++head) {
      if (n.present && !present[size_t(head / n.heads)]) continue;
      const auto part = [&](auto& all) { return row_of(all, head, n.size); };
      Numbers<T> act, dact(gate.empty() ? 0 : size_t(n.size)), at;
      for (int64_t i = 0; i < n.size && n.gated; ++i) {
        at.push_back(gates[size_t(head * n.size + i)] +
                     T(bias[size_t(head % n.heads * n.size + i)]));
        act.push_back(reference::gate_of(GateActivation::sigmoid, at.back()));
      }
      reference::rms_norm_backward<T>(
          {part(xs), ws, act, T(1e-5f), part(dys), part(d.dx), d.dweight, dact});
      for (size_t i = 0; i < dact.size(); ++i)
        d.dgate[size_t(head * n.size) + i] =
            dact[i] * reference::gate_derivative(GateActivation::sigmoid, at[i]);
    }
    return d;
  }
};

template <class Real>
class GpuRmsNormGradient : public GpuTest {};
TYPED_TEST_SUITE(GpuRmsNormGradient, Reals);

TYPED_TEST(GpuRmsNormGradient, IsTheDefinition) {
  using Real = TypeParam;
  for (const NormCase& n : norm_cases) {
    const int64_t all = n.rows * n.heads * n.size;
    NormInputs in{random_numbers<Real>(all, 2, 1),
                  random_numbers<float>(n.size, 1, 2),
                  random_numbers<Real>(n.gated ? all : 0, 2, 3),
                  random_numbers<float>(n.gated ? n.heads * n.size : 0, 1, 4),
                  random_numbers<Real>(all, 1, 5),
                  Numbers<float>(size_t(all), n.present ? 0.25f : 0.0f),
                  {}};
    for (int64_t i = 0; i < n.rows; ++i) in.present.push_back(i % 3 != 1);
    const auto x = this->template upload<Real>(in.x), gate = this->template upload<Real>(in.gate),
               dy = this->template upload<Real>(in.dy);
    const auto weight = this->template upload<float>(in.weight),
               bias = this->template upload<float>(in.bias);
    const auto present = this->upload(in.present);
    auto dx =
        n.present ? this->template upload<Real>(in.before) : this->template poisoned<Real>(all);
    auto dgate = this->template poisoned<Real>(n.gated ? all : 0);
    auto dweight = this->template upload<float>(Numbers<float>(size_t(n.size), 0.5f));
    auto copy = this->template upload<bf16>(Numbers<float>(size_t(all), 0.25f));
    auto scratch = this->template poisoned<float>(rms_backward_scratch(n.rows, n.heads, n.size));
    RmsNormGradient<Real, Real> op;
    op.rows = n.rows, op.heads = n.heads, op.size = n.size, op.x = x.data();
    op.weight = weight.data(), op.eps = 1e-5f, op.dy = dy.data(), op.dx = dx.data();
    op.add = n.present, op.dweight = dweight.data(), op.scratch = scratch.data();
    op.rounded = copy.data();
    if (n.gated) op.gate = gate.data(), op.gate_bias = bias.data(), op.dgate = dgate.data();
    op.activation = GateActivation::sigmoid;
    if (n.present) op.present = present.data();
    rms_norm_backward(op, this->gpu());
    const auto plain = in.template definition<float>(n);
    const auto truth = in.template definition<double>(n);
    this->expect_close("dx", dx, plain.dx, truth.dx);
    this->expect_close("dx in bf16", copy, plain.dx, truth.dx);
    this->expect_close("dweight", dweight, plain.dweight, truth.dweight);
    if (n.gated) this->expect_close("dgate", dgate, plain.dgate, truth.dgate);
  }
}

TYPED_TEST(GpuRmsNormGradient, OfTheL2NormIsTheDefinition) {
  using Real = TypeParam;
  for (const int64_t size : {1, 20, 64, 256, 512, 1040}) {
    constexpr int64_t rows = 5, heads = 3;
    const int64_t all = rows * heads * size;
    // Of one channel far above eps, dy is cancelled but for its rounding: such a head has small x only.
    const Numbers<float> x[2] = {random_numbers<Real>(all, size == 1 ? 0.002 : 0.1, 1),
                                 random_numbers<Real>(all, 0.002, 2)};
    const Numbers<float> dy[2] = {random_numbers<Real>(all, 1, 3), random_numbers<Real>(all, 1, 4)};
    const float scale[2] = {0.25f, 1};
    const GpuTensor<Real> from[2] = {this->template upload<Real>(x[0]),
                                     this->template upload<Real>(x[1])};
    GpuTensor<Real> d[2] = {this->template upload<Real>(dy[0]), this->template upload<Real>(dy[1])};
    L2NormsGradient<Real> op{rows,
                             heads,
                             size,
                             1e-6f,
                             {from[0].data(), from[1].data()},
                             {d[0].data(), d[1].data()},
                             {scale[0], scale[1]}};
    l2_norms_backward(op, this->gpu());
    for (size_t i = 0; i < 2; ++i) {
      const auto definition = [&]<class T>(T) {
        const Numbers<T> xs = as<T>(x[i]);
        Numbers<T> found = as<T>(dy[i]);
        for (int64_t head = 0; head < rows * heads; ++head)
          reference::l2_norm_backward<T>(row_of(xs, head, size), T(1e-6f), T(scale[i]),
                                         row_of(found, head, size));
        return found;
      };
      this->expect_close("dx", d[i], definition(1.0f), definition(1.0));
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
