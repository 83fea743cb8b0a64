// Where the numbers of a training pass on the CPU lie, and its matrix products.
//
//     linear   y = x W'      W (out, in)        factor   y = x F      F (in, out)
//
// With bf16, products take rounded operands (rounding.h).
#pragma once

#include <optional>
#include <span>

#include "base/processor_time.h"
#include "kernel/cpu_device.h"
#include "kernel/matmul/gradient.h"
#include "kernel/matmul/matmul.h"
#include "model/sane.h"
#include "model/train/parameters.h"
#include "model/train/rounding.h"

namespace deltasane {

struct TrainingPass {
  std::optional<SaneSettings> sane;
  int64_t sequences, time;
  std::span<const float> parameters;
  std::span<float> gradient;  // empty on a forward pass without a backward one
  const kernel::Cpu& cpu;
  View<const uint8_t> present{};  // (sequences, time); absent: all
  Rounding* rounding = nullptr;   // of bf16; it has taken the parameters
  // Added to: the processors' time for what SANE has a part in, recurrence and tau.
  double* recurrence_seconds = nullptr;

  int64_t rows() const { return sequences * time; }
  int64_t chunks() const { return sane ? time / sane->chunk : 0; }  // of one sequence
  const float* w(Slot slot) const { return parameters.data() + slot->offset; }
  float* dw(Slot slot) const { return gradient.data() + slot->offset; }
  View<float> dmatrix(Slot slot) const { return {dw(slot), slot->shape}; }
  // What a matrix product takes: as it is, or rounded.
  View<const float> matrix(Slot slot) const {
    return {(rounding ? rounding->parameters() : parameters).data() + slot->offset, slot->shape};
  }
  View<const float> taken(View<const float> rows, Rounding::Operand operand) const {
    return rounding ? rounding->of(rows, operand, cpu) : rows;
  }
  TrainingPass without_rounding() const {
    TrainingPass exact = *this;
    exact.rounding = nullptr;
    return exact;
  }
};

// A matrix that products take, and where its gradient is added to.
struct TrainedMatrix {
  View<const float> w;
  View<float> dw;  // absent on a forward pass
};
inline TrainedMatrix trained(const TrainingPass& c, Slot slot) {
  return {c.matrix(slot), c.gradient.empty() ? View<float>() : c.dmatrix(slot)};
}
// One of (matrices, out, in).
TrainedMatrix trained(const TrainingPass& c, Slot slot, int64_t number);

void linear(const TrainingPass& c, const TrainedMatrix& m, View<const float> x, View<float> y,
            kernel::Store store = kernel::Store::overwrite);
void linear_backward(const TrainingPass& c, const TrainedMatrix& m, View<const float> x,
                     View<const float> dy, View<float> dx,
                     kernel::Store store = kernel::Store::overwrite);
inline void linear(const TrainingPass& c, Slot w, View<const float> x, View<float> y,
                   kernel::Store store = kernel::Store::overwrite) {
  linear(c, trained(c, w), x, y, store);
}
inline void linear_backward(const TrainingPass& c, Slot w, View<const float> x,
                            View<const float> dy, View<float> dx,
                            kernel::Store store = kernel::Store::overwrite) {
  linear_backward(c, trained(c, w), x, dy, dx, store);
}
void factor(const TrainingPass& c, Slot f, View<const float> x, View<float> y);
void factor_backward(const TrainingPass& c, Slot f, View<const float> x, View<const float> dy,
                     View<float> dx, kernel::Store store = kernel::Store::overwrite);

void copy_rows(const Tensor<float>& from, Tensor<float>& to, const kernel::Cpu& cpu);

// Rows of padding become zeros: as an argument, and as a gradient of it.
void clear_padding(const TrainingPass& c, Tensor<float>& rows);

// Counts what is done while it lives; see TrainingPass::recurrence_seconds.
class CountsTime {
 public:
  explicit CountsTime(const TrainingPass& c)
      : sum_(c.recurrence_seconds), began_(sum_ ? processor_seconds_now() : 0) {}
  ~CountsTime() {
    if (sum_) *sum_ += processor_seconds_now() - began_;
  }
  CountsTime(const CountsTime&) = delete;
  CountsTime& operator=(const CountsTime&) = delete;

 private:
  double* sum_;
  double began_;
};

}  // namespace deltasane
