// Where the numbers of a training pass on the CPU lie, and its matrix products.
//
//     linear   y = x W'      W (out, in)        factor   y = x F      F (in, out)
//
// With bf16, products take rounded operands (model/train/rounding.h).
#pragma once

#include <optional>
#include <span>

#include "kernel/cpu_device.h"
#include "kernel/matmul/gradient.h"
#include "kernel/matmul/matmul.h"
#include "model/train/rounding.h"
#include "model/rwkv7/train/slots.h"
#include "model/sane.h"

namespace deltasane::rwkv7 {

struct CpuPass {
  const Rwkv7Shape& shape;
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
  CpuPass without_rounding() const {
    CpuPass exact = *this;
    exact.rounding = nullptr;
    return exact;
  }
};

// Gradients of matrices are added to.
void linear(const CpuPass& c, Slot w, View<const float> x, View<float> y,
            kernel::Store store = kernel::Store::overwrite);
void linear_backward(const CpuPass& c, Slot w, View<const float> x, View<const float> dy,
                     View<float> dx);
void factor(const CpuPass& c, Slot f, View<const float> x, View<float> y);
void factor_backward(const CpuPass& c, Slot f, View<const float> x, View<const float> dy,
                     View<float> dx, kernel::Store store = kernel::Store::overwrite);

}  // namespace deltasane::rwkv7
