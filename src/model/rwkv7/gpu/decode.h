// Single tokens of up to eight sequences. Where the GPU can run it, a step of all of them is one
// kernel (model/rwkv7/decode/token.h). On GPUs that cannot run it for one sequence, the kernels of
// model/rwkv7/decode/small_batch.h take a step, recorded once per number of sequences and then
// repeated.
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

  // Whether so many are for this, and not for a block with a row each, as all of a quantized model are.
  bool takes(size_t sequences) const;

  // logits: (sequences, vocabulary), or null: not wanted. Waits for the result.
  void step(std::span<const SingleToken> sequences, float* logits);

  // The logits, (sequences, vocabulary), stay on the GPU until the next call. Does not wait.
  float* ask(std::span<const SingleToken> sequences);

 private:
  // A step of so many sequences as one kernel.
  struct OneKernel {
    std::optional<rwkv7::TokenSharedMemory> room;  // none: it does not fit
    GpuTensor<float> exchanged;                    // empty before the first step
    uint32_t steps = 0;                            // that have had these
  };
  OneKernel& one_kernel(size_t sequences) { return one_kernel_[sequences - 1]; }
  // One kernel writes its logits where they are wanted: there, or in pinned memory.
  void ask_one_kernel(std::span<const SingleToken> sequences, float* logits);
  void ask_few(int64_t sequences);

  std::shared_ptr<const Gpu> gpu_;
  const Rwkv7GpuWeights<Real>& weights_;
  rwkv7::NormEpsilons eps_;
  rwkv7::DecodeSane sane_;
  int64_t vocabulary_;
  GpuTensor<float> x_, u_, tau_, in_, v_first_, y_, hidden_, logits_;
  GpuTensor<rwkv7::LayerWeights<Real>> layers_;
  std::array<OneKernel, rwkv7::max_small_batch> one_kernel_;  // by sequences - 1
  GpuBuffer inputs_;
  PinnedBuffer inputs_here_, logits_here_;
  std::array<GpuGraph, rwkv7::max_small_batch> recorded_;  // by sequences - 1
};

}  // namespace deltasane
