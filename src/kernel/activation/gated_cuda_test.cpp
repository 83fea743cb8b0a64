#include "kernel/activation/gated_cuda.h"

#include "kernel/activation/reference.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuGates : public GpuTest {};
TYPED_TEST_SUITE(GpuGates, Reals);

TYPED_TEST(GpuGates, AndTheirGradientsAreTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 64, 3001})
    for (const auto activation : {GateActivation::silu, GateActivation::sigmoid}) {
      const Numbers<float> gate = random_numbers<Real>(count, 3, 1),
                           x = random_numbers<Real>(count, 1, 2),
                           dy = random_numbers<Real>(count, 1, 3);
      struct Found {
        Numbers<double> y, dgate, dx;
      };
      const auto definition = [&]<class T>(T) {
        Found f;
        for (size_t i = 0; i < x.size(); ++i) {
          const T act = reference::gate_of(activation, T(gate[i]));
          f.y.push_back(double(act * T(x[i]))), f.dx.push_back(double(act * T(dy[i])));
          f.dgate.push_back(
              double(T(dy[i]) * T(x[i]) * reference::gate_derivative(activation, T(gate[i]))));
        }
        return f;
      };
      const auto of_gate = this->template upload<Real>(gate), from = this->template upload<Real>(x);
      auto y = this->template poisoned<Real>(count), again = this->template poisoned<Real>(count),
           dgate = this->template poisoned<Real>(count), d = this->template upload<Real>(dy);
      multiply_by_gate(
          GatedRows<Real>{activation, 1, count, of_gate.data(), count, from.data(), y.data()},
          this->gpu());
      multiply_by_gate_backward(
          GatedRowsGradient<Real>{activation, count, of_gate.data(), from.data(), d.data(),
                                  dgate.data(), d.data(), again.data()},
          this->gpu());
      const Found plain = definition(1.0f), truth = definition(1.0);
      const auto floats = [](const Numbers<double>& all) {
        return Numbers<float>(all.begin(), all.end());
      };
      this->expect_close("y", y, floats(plain.y), truth.y);
      this->expect_close("dgate", dgate, floats(plain.dgate), truth.dgate);
      this->expect_close("dx", d, floats(plain.dx), truth.dx);
      EXPECT_EQ(this->download(again), this->download(y));
    }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
