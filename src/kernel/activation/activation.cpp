#include "kernel/activation/activation.h"

#include "kernel/activation/cpu.h"
#include "kernel/isa_dispatch.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

RowActivation row_activation(Activation activation, Isa set) {
  RowActivation row = nullptr;
  with_float_isa(set, [&]<Isa isa>() {
    switch (activation) {
      case Activation::tanh:
        row = cpu::tanh_row<isa>;
        return;
      case Activation::sigmoid:
        row = cpu::sigmoid_row<isa>;
        return;
      case Activation::squared_relu:
        row = cpu::squared_relu_row<isa>;
        return;
    }
  });
  return row;
}

void activate_row(Activation activation, float* x, int64_t count, Isa set) {
  row_activation(activation, set)(x, count);
}

void activate(Activation activation, View<float> x, const Cpu& cpu) {
  expect_rows("x", x, x.shape);
  each_row(x.shape[0], cpu,
           [&](int64_t row) { activate_row(activation, x.at(row), x.shape[1], cpu.isa); });
}

void activate_backward(Activation activation, View<const float> y, View<float> dy, const Cpu& cpu) {
  expect_rows("y", y, y.shape);
  expect_rows("dy", dy, y.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(y.shape[0], [&](int64_t row) {
      switch (activation) {
        case Activation::tanh:
          return cpu::tanh_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
        case Activation::sigmoid:
          return cpu::sigmoid_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
        case Activation::squared_relu:
          return cpu::squared_relu_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
      }
    });
  });
}

}  // namespace deltasane::kernel
