// Single tokens of up to eight sequences. Where the GPU can run it, a token is one kernel and
// sequences come one after the other; elsewhere the other kernels of kernel/rwkv7/cuda_decode.h
// take all of them, recorded once per number of sequences and then repeated.
#pragma once

#include <array>

#include "kernel/sampler/cuda.h"
#include "model/rwkv7/gpu/lane.h"
#include "tensor/cuda/graph.h"

namespace deltasane {

template <class Real>
class GpuDecoder {
 public:
  GpuDecoder(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights,
             const GpuSane& sane, int64_t vocabulary);

  // Whether so many are for this, and not for a block with a row each.
  bool takes(size_t sequences) const;

  // logits: (sequences, vocabulary), or null: not wanted. Waits for the result.
  void step(std::span<const SingleToken> sequences, float* logits);
  // The next token of one sequence, picked on the GPU; nothing else comes from there.
  kernel::cuda::Picked step_and_pick(const SingleToken& sequence, const kernel::cuda::Picking& how,
                                     std::span<const kernel::cuda::TokenPenalty> penalties);

  // The logits, (sequences, vocabulary), stay on the GPU until the next call. Does not wait.
  float* ask(std::span<const SingleToken> sequences);

 private:
  // One kernel each, which writes its logits where they are wanted: there, or in pinned memory.
  void ask_in_turn(std::span<const SingleToken> sequences, float* logits);
  void ask_few(int64_t sequences);

  std::shared_ptr<const Gpu> gpu_;
  const Rwkv7GpuWeights<Real>& weights_;
  kernel::cuda::DecodeSane sane_;
  int64_t vocabulary_;
  GpuTensor<float> x_, u_, tau_, in_, v_first_, y_, hidden_, logits_;
  std::optional<kernel::cuda::TokenRoom> room_;  // none where a token is many kernels
  GpuTensor<kernel::cuda::LayerWeights<Real>> layers_;
  GpuTensor<float> handed_;
  uint32_t single_tokens_ = 0;  // that have had handed_
  GpuBuffer inputs_;
  PinnedBuffer inputs_here_, logits_here_, penalties_here_, picked_here_;
  std::array<GpuGraph, kernel::cuda::most_decoded> recorded_;  // by sequences - 1
};

}  // namespace deltasane
