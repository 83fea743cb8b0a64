// The alphas of sequences that are read on a GPU: those of their states, or ones that follow the
// heads on the way (adaptive_sane.h) and are brought back to the states when all is read.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kernel/state_scan/cuda.h"
#include "model/language_model.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

class GpuAlphas {
 public:
  GpuAlphas(std::shared_ptr<const Gpu> gpu, int64_t layers, int64_t heads, double alpha)
      : gpu_(std::move(gpu)), layers_(layers), heads_(heads), alpha_(alpha) {}

  void begin(std::span<const SequenceInput* const> sequences);
  // Several sequences that all have the alphas of one.
  void begin(SequenceState& state);
  // (sequences, layer, head) on the GPU; null as long as each head has the model's.
  const float* now() const { return has_own_ ? alphas_.data() : nullptr; }
  // Tokens from a position to where the heads are looked at.
  int64_t until_next_look(int64_t position) const;
  // What a block that ends at a position does then, if anything. `now` is asked before.
  std::optional<kernel::cuda::AdaptAlphas> look_after(int64_t position);
  // All blocks are read.
  void end(std::span<const SequenceInput* const> sequences);

 private:
  size_t heads_of_all() const { return size_t(layers_ * heads_); }
  void upload(std::span<const SequenceInput* const> sequences);

  std::shared_ptr<const Gpu> gpu_;
  int64_t layers_, heads_;
  double alpha_;
  GpuTensor<float> alphas_;       // (sequences, layer, head)
  GpuTensor<double> references_;  // the same, where they follow
  int64_t count_ = 0;             // of the sequences
  bool has_own_ = false, follows_ = false, has_references_ = false, has_looked_ = false;
};

}  // namespace deltasane
