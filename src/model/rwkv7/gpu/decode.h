// Single tokens of up to eight sequences. Where the GPU can run it, a token is one kernel and
// sequences come one after the other; elsewhere the other kernels of model/rwkv7/decode/small_batch.h
// take all of them, recorded once per number of sequences and then repeated.
#pragma once

#include <array>

#include "model/rwkv7/decode/small_batch.h"
#include "model/rwkv7/decode/token.h"
#include "model/rwkv7/gpu/executor.h"
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

  // The logits, (sequences, vocabulary), stay on the GPU until the next call. Does not wait.
  float* ask(std::span<const SingleToken> sequences);

 private:
  // One kernel each, which writes its logits where they are wanted: there, or in pinned memory.
  void ask_in_turn(std::span<const SingleToken> sequences, float* logits);
  void ask_few(int64_t sequences);

  std::shared_ptr<const Gpu> gpu_;
  const Rwkv7GpuWeights<Real>& weights_;
  rwkv7::NormEpsilons eps_;
  rwkv7::DecodeSane sane_;
  int64_t vocabulary_;
  GpuTensor<float> x_, u_, tau_, in_, v_first_, y_, hidden_, logits_;
  std::optional<rwkv7::TokenSharedMemory> room_;  // none where a token is many kernels
  GpuTensor<rwkv7::LayerWeights<Real>> layers_;
  GpuTensor<float> handed_;
  uint32_t single_tokens_ = 0;  // that have had handed_
  GpuBuffer inputs_;
  PinnedBuffer inputs_here_, logits_here_;
  std::array<GpuGraph, rwkv7::max_small_batch> recorded_;  // by sequences - 1
};

}  // namespace deltasane
