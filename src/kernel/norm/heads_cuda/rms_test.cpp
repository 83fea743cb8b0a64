#include "kernel/norm/rms_cuda.h"

#include "kernel/activation/reference.h"
#include "kernel/norm/rms_reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

struct HeadCase {
  int64_t rows, heads, size;
  bool gated, added;
};
// Heads of one to four pieces of a warp, of a block, and sizes that eight does not divide.
const HeadCase head_cases[] = {{5, 3, 20, true, false},   {9, 1, 256, false, false},
                               {7, 2, 512, true, false},  {3, 1, 520, false, true},
                               {5, 1, 1024, false, true}, {3, 1, 1021, true, false},
                               {4, 1, 1032, true, false}, {2, 1, 3000, false, true}};

template <class Real>
class GpuRmsNorm : public GpuTest {};
TYPED_TEST_SUITE(GpuRmsNorm, Reals);

TYPED_TEST(GpuRmsNorm, IsTheDefinition) {
  using Real = TypeParam;
  for (const HeadCase& n : head_cases) {
    const int64_t width = n.heads * n.size, step = width + 16, all = n.rows * step;
    const Numbers<float> x = random_numbers<Real>(all, 2, 1),
                         gate = random_numbers<Real>(all, 2, 2),
                         weight = random_numbers<float>(n.size, 1, 3),
                         bias = random_numbers<float>(width, 1, 4),
                         before = random_numbers<Real>(n.rows * width, 1, 5);
    const auto from = this->template upload<Real>(x), gates = this->template upload<Real>(gate);
    const auto weights = this->template upload<float>(weight),
               biases = this->template upload<float>(bias);
    auto y = this->template upload<Real>(before);
    RmsNorm<Real, Real> op;
    op.rows = n.rows, op.heads = n.heads, op.size = n.size, op.x = from.data(), op.x_step = step;
    op.weight = weights.data(), op.eps = 1e-5f, op.y = y.data(), op.y_step = width;
    op.add = n.added, op.activation = GateActivation::silu;
    if (n.gated) op.gate = gates.data(), op.gate_step = step, op.gate_bias = biases.data();
    rms_norm(op, this->gpu());
    const auto definition = [&]<class T>(T) {
      Numbers<T> found;
      const Numbers<T> w = as<T>(weight);
      for (int64_t head = 0; head < n.rows * n.heads; ++head) {
        const int64_t at = head / n.heads * step + head % n.heads * n.size;
        const Numbers<T> own(x.begin() + at, x.begin() + at + n.size);
        Numbers<T> normed(own.size());
        reference::rms_norm<T>(own, w, T(1e-5f), normed);
        for (int64_t c = 0; c < n.size; ++c) {
          T value = normed[size_t(c)];
          if (n.gated)
            value *= reference::gate_of(
                GateActivation::silu,
                T(gate[size_t(at + c)]) + T(bias[size_t(head % n.heads * n.size + c)]));
          found.push_back(value + (n.added ? T(before[size_t(head * n.size + c)]) : T(0)));
        }
      }
      return found;
    };
    this->expect_close("y", y, definition(1.0f), definition(1.0));
  }
}

TYPED_TEST(GpuRmsNorm, OfLengthOneIsTheDefinition) {
  using Real = TypeParam;
  for (const int64_t size : {1, 20, 256, 512, 1040}) {
    constexpr int64_t rows = 5, heads = 3;
    const int64_t all = rows * heads * size;
    const Numbers<float> x[2] = {random_numbers<Real>(all, 0.1, 1),
                                 random_numbers<Real>(all, 0.002, 2)};
    const GpuTensor<Real> from[2] = {this->template upload<Real>(x[0]),
                                     this->template upload<Real>(x[1])};
    GpuTensor<Real> y[2] = {this->template poisoned<Real>(all), this->template poisoned<Real>(all)};
    const float scale[2] = {0.25f, 1};
    l2_norms(L2Norms<Real>{rows,
                           heads,
                           size,
                           1e-6f,
                           {from[0].data(), from[1].data()},
                           {y[0].data(), y[1].data()},
                           {scale[0], scale[1]}},
             this->gpu());
    for (size_t i = 0; i < 2; ++i) {
      const auto definition = [&]<class T>(T) {
        Numbers<T> found = as<T>(x[i]);
        for (int64_t head = 0; head < rows * heads; ++head)
          reference::l2_norm<T>(row_of(found, head, size), T(1e-6f), T(scale[i]));
        return found;
      };
      this->expect_close("y", y[i], definition(1.0f), definition(1.0));
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
