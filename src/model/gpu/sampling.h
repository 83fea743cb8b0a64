// The samplers of a step's sequences, which draw on a GPU.
//
// One sequence alone is drawn for by a launch whose parameters and result are in the host's memory;
// those of several are copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/sampler/cuda.h"
#include "model/language_model.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

class GpuSampling {
 public:
  using Inputs = std::span<const SequenceInput* const>;

  // The step before has ended.
  void begin(Inputs inputs, const Gpu& gpu) {
    params_here_.clear(), penalties_here_.clear();
    for (const SequenceInput* one : inputs)
      params_here_.push_back(one->sampler->params(penalties_here_));
    pin(pinned_penalties_, std::span(penalties_here_));
    reserve(pinned_sampled_, inputs.size() * sizeof(kernel::SampledToken));
    if (inputs.size() == 1) return;
    pin(pinned_params_, std::span(params_here_));
    copy(params_, pinned_params_, params_here_.size(), gpu);
    copy(penalties_, pinned_penalties_, penalties_here_.size(), gpu);
    reserve(sampled_, inputs.size(), gpu);
  }
  // The rows [from, from + rows) of the step. Their logits are changed.
  void sample(int64_t from, int64_t rows, int64_t vocabulary, float* logits, const Gpu& gpu) {
    if (params_here_.size() == 1)
      kernel::cuda::sample_row({vocabulary, logits, params_here_[0],
                                pinned_penalties_.as<kernel::TokenPenalty>(),
                                pinned_sampled_.as<kernel::SampledToken>()},
                               gpu);
    else
      kernel::cuda::sample_rows({rows, vocabulary, logits, params_.data() + from, penalties_.data(),
                                 sampled_.data() + from},
                                gpu);
  }
  // Waits, and gives each sequence its token. Positions are those after the step.
  void end(Inputs inputs, int64_t vocabulary, const Gpu& gpu) {
    const auto* const sampled = pinned_sampled_.as<kernel::SampledToken>();
    if (inputs.size() > 1)
      copy_to_host(pinned_sampled_.as<kernel::SampledToken>(), sampled_.data(),
                   inputs.size() * sizeof(kernel::SampledToken), gpu);
    gpu.wait();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const SequenceInput& one = *inputs[i];
      if (sampled[i].broken < 0) one.sampler->accept(sampled[i], vocabulary, one.state->position);
      *one.sampled = sampled[i];
    }
  }

 private:
  template <class T>
  static void reserve(GpuTensor<T>& tensor, size_t count, const Gpu& gpu) {
    if (size_t(tensor.elements()) < count)
      tensor = GpuTensor<T>(gpu, {int64_t(2 * count)}, "sampling");
  }
  static void reserve(PinnedBuffer& buffer, size_t bytes) {
    if (buffer.size() < bytes) buffer = PinnedBuffer(2 * bytes);
  }
  template <class T>
  static void pin(PinnedBuffer& buffer, std::span<T> numbers) {
    reserve(buffer, numbers.size_bytes());
    std::ranges::copy(numbers, buffer.as<T>());
  }
  template <class T>
  static void copy(GpuTensor<T>& tensor, const PinnedBuffer& from, size_t count, const Gpu& gpu) {
    reserve(tensor, count, gpu);
    copy_to_gpu(tensor.data(), from.as<T>(), count * sizeof(T), gpu);
  }

  std::vector<kernel::SamplingParams> params_here_;
  std::vector<kernel::TokenPenalty> penalties_here_;
  PinnedBuffer pinned_params_, pinned_penalties_, pinned_sampled_;
  GpuTensor<kernel::SamplingParams> params_;
  GpuTensor<kernel::TokenPenalty> penalties_;
  GpuTensor<kernel::SampledToken> sampled_;
};

}  // namespace deltasane
