#include "model/train/training_pass.h"

#include <algorithm>

namespace deltasane {

using kernel::Store;

namespace {

kernel::Weights weights_of(View<const float> matrix) {
  return kernel::Weights::view(kernel::WeightType::f32, matrix.data, matrix.shape[0],
                               matrix.shape[1]);
}

}  // namespace

TrainedMatrix trained(const TrainingPass& c, Slot slot, int64_t number) {
  const Shape one{slot->shape[1], slot->shape[2]};
  const int64_t at = number * one.elements();
  TrainedMatrix found{{c.matrix(slot).data + at, one}, {}};
  if (!c.gradient.empty()) found.dw = {c.dw(slot) + at, one};
  return found;
}

void linear(const TrainingPass& c, const TrainedMatrix& m, View<const float> x, View<float> y,
            Store store) {
  kernel::matmul(weights_of(m.w), c.taken(x, Rounding::first), y, c.cpu, store);
}

void linear_backward(const TrainingPass& c, const TrainedMatrix& m, View<const float> x,
                     View<const float> dy, View<float> dx, Store store) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(dy_taken, c.taken(x, Rounding::first), m.dw, c.cpu, Store::add);
  kernel::matmul_nn(dy_taken, m.w, dx, c.cpu, store);
}

void factor(const TrainingPass& c, Slot f, View<const float> x, View<float> y) {
  kernel::matmul_nn(c.taken(x, Rounding::first), c.matrix(f), y, c.cpu);
}

void factor_backward(const TrainingPass& c, Slot f, View<const float> x, View<const float> dy,
                     View<float> dx, Store store) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(c.taken(x, Rounding::first), dy_taken, c.dmatrix(f), c.cpu, Store::add);
  kernel::matmul(weights_of(c.matrix(f)), dy_taken, dx, c.cpu, store);
}

void copy_rows(const Tensor<float>& from, Tensor<float>& to, const kernel::Cpu& cpu) {
  const int64_t n = from.shape()[1];
  cpu.threads.parallel(from.shape()[0], [&](int64_t row) {
    std::copy_n(from.data() + row * n, n, to.data() + row * n);
  });
}

void clear_padding(const TrainingPass& c, Tensor<float>& rows) {
  if (!c.present) return;
  const int64_t n = rows.shape()[1];
  for (int64_t row = 0; row < c.rows(); ++row)
    if (!c.present.data[row]) std::fill_n(rows.data() + row * n, n, 0.0f);
}

}  // namespace deltasane
