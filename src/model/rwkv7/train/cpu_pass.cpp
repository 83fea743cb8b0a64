#include "model/rwkv7/train/cpu_pass.h"

namespace deltasane::rwkv7 {

using kernel::Store;

namespace {

kernel::Weights weights_of(View<const float> matrix) {
  return kernel::Weights::view(kernel::WeightType::f32, matrix.data, matrix.shape[0],
                               matrix.shape[1]);
}

}  // namespace

void linear(const CpuPass& c, Slot w, View<const float> x, View<float> y, Store store) {
  kernel::matmul(weights_of(c.matrix(w)), c.taken(x, Rounding::first), y, c.cpu, store);
}

void linear_backward(const CpuPass& c, Slot w, View<const float> x, View<const float> dy,
                     View<float> dx) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(dy_taken, c.taken(x, Rounding::first), c.dmatrix(w), c.cpu, Store::add);
  kernel::matmul_nn(dy_taken, c.matrix(w), dx, c.cpu);
}

void factor(const CpuPass& c, Slot f, View<const float> x, View<float> y) {
  kernel::matmul_nn(c.taken(x, Rounding::first), c.matrix(f), y, c.cpu);
}

void factor_backward(const CpuPass& c, Slot f, View<const float> x, View<const float> dy,
                     View<float> dx, Store store) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(c.taken(x, Rounding::first), dy_taken, c.dmatrix(f), c.cpu, Store::add);
  kernel::matmul(weights_of(c.matrix(f)), dy_taken, dx, c.cpu, store);
}

}  // namespace deltasane::rwkv7
