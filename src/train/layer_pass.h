// One layer of RWKV-7, forward and backward over all rows of a batch.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kernel/cpu_device.h"
#include "kernel/matmul/gradient.h"
#include "train/layer_activations.h"
#include "train/parameters.h"
#include "train/rounding.h"

namespace deltasane::train {

// Where a model's numbers lie, and how a batch is cut.
struct PassContext {
  const ParameterLayout& layout;
  std::optional<SaneSettings> sane;
  int64_t sequences, time;
  std::span<const float> parameters;
  std::span<float> gradient;  // empty on a forward pass without a way back
  const kernel::Cpu& cpu;
  View<const uint8_t> present{};  // (sequences, time); absent: all
  Rounding* rounding = nullptr;   // of bf16; it has taken the parameters
  // Added to: the processors' time for what SANE has a part in, recurrence and thresholds.
  double* recurrence_seconds = nullptr;

  int64_t rows() const { return sequences * time; }
  int64_t chunks() const { return sane ? time / sane->chunk : 0; }  // of one sequence
  const float* w(const std::string& name) const {
    return parameters.data() + layout.slot(name).offset;
  }
  float* dw(const std::string& name) const { return gradient.data() + layout.slot(name).offset; }
  // What a matrix product takes: as it is, or rounded.
  View<const float> matrix(const std::string& name) const {
    const ParameterSlot& slot = layout.slot(name);
    return {(rounding ? rounding->parameters() : parameters).data() + slot.offset, slot.shape};
  }
  View<const float> taken(View<const float> rows, Rounding::Operand operand) const {
    return rounding ? rounding->of(rows, operand, cpu) : rows;
  }
  PassContext without_rounding() const {
    return {layout, sane, sequences, time, parameters, gradient, cpu, present, nullptr};
  }
  View<float> dmatrix(const std::string& name) const { return {dw(name), layout.slot(name).shape}; }
  View<const float> sequence(const Tensor<float>& all, int64_t i) const {
    return all.view().part(0, i * time, time);
  }
  View<float> sequence(Tensor<float>& all, int64_t i) const {
    return all.view().part(0, i * time, time);
  }
};

// y = x W' and y = x F, and their ways back; gradients of the matrices are added to.
void linear(const PassContext& c, const std::string& name, View<const float> x, View<float> y,
            kernel::Store store = kernel::Store::overwrite);
void linear_backward(const PassContext& c, const std::string& name, View<const float> x,
                     View<const float> dy, View<float> dx);
void factor(const PassContext& c, const std::string& name, View<const float> x, View<float> y);
void factor_backward(const PassContext& c, const std::string& name, View<const float> x,
                     View<const float> dy, View<float> dx,
                     kernel::Store store = kernel::Store::overwrite);

// From act.x to x_out, filling `act`. v_first: written by layer 0, read by the others.
void layer_forward(const PassContext& c, int64_t layer, LayerActivations& act,
                   Tensor<float>& v_first, BackwardScratch& s, Tensor<float>& x_out);

// dx: the gradient of x_out becomes that of act.x. dv_first: added to, and taken by layer 0.
void layer_backward(const PassContext& c, int64_t layer, LayerActivations& act,
                    const Tensor<float>& v_first, Tensor<float>& dv_first, BackwardScratch& s,
                    Tensor<float>& dx);

}  // namespace deltasane::train
