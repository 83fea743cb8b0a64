// The loss and gradient of RWKV-7 on a GPU: what rwkv7_training.h computes, in float for tests or
// with bf16 products and activations for speed. The residual stream, decay, tau and state are float
// in both.
//
// Activations of every layer are kept for the way back, or only each layer's input
// (Activations::recompute); the results are the same bit for bit. Two equal calls give equal bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tensor/cuda/gpu.h"
#include "train/batch.h"
#include "train/gpu/work_clock.h"
#include "train/parameters.h"
#include "train/rwkv7_training.h"

namespace deltasane::train {

namespace gpu {
template <class Real>
struct TrainingState;
}

// Rows of numbers on the GPU, in the layout.
template <class Real>
struct GpuModel {
  const float* parameters;
  const Real* rounded;  // the same as products read them; `parameters` where Real is float
};

template <class Real>  // float or bf16
class GpuTraining {
 public:
  // Buffers for batches of this size; they are used again by every call.
  GpuTraining(const ParameterLayout& layout, const std::optional<SaneSettings>& sane,
              int64_t sequences, int64_t time, Activations activations, const Gpu& gpu);
  ~GpuTraining();

  // Adds the loss to *loss and its gradient to `gradient`, both on the GPU; null: the loss alone.
  // Asks for the work and does not wait for it; the batch may go when this returns.
  void add(const GpuModel<Real>& model, const Batch& batch, const LossSettings& settings,
           float* gradient, double* loss, const FinishedStretch& finished = {});

  // For a benchmark: whether the next passes of a model with SANE are with it, or as if it had
  // none.
  void neutralize(bool on);

  gpu::WorkClock& clock();
  uint64_t bytes() const;  // of activations and buffers

 private:
  std::unique_ptr<gpu::TrainingState<Real>> state_;
};

}  // namespace deltasane::train
