// Single tokens of many sequences: a block with a row of each. At few rows the GPU takes less time
// for a layer's twenty kernels than the host to ask for them, so they are recorded when a number of
// rows comes again, and then repeated. Numbers of sequences change all the time where texts begin and
// end, and recording takes longer than a step: rows that nobody reads fill them up to one of a few.
#pragma once

#include <functional>
#include <map>

#include "model/rwkv7/gpu/executor.h"
#include "tensor/cuda/graph.h"

namespace deltasane {

template <class Real>
class GpuManyDecoder {
 public:
  GpuManyDecoder(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights,
                 const GpuSane& sane, int64_t vocabulary, int64_t state_floats);

  // Is told of logits, on the GPU: those of `rows` sequences, from `from` on.
  using Take = std::function<void(int64_t from, int64_t rows, float* logits)>;
  // alphas: (layer, head), for all; null: the model's. Does not wait for the last of them.
  void step(std::span<const SingleToken> sequences, const float* alphas, const Take& take);

 private:
  void make_room(int64_t rows);
  TokenBlock block_of(std::span<const SingleToken> sequences, const float* alphas);
  void run(const TokenBlock& block);
  void ask(const TokenBlock& block);

  std::shared_ptr<const Gpu> gpu_;
  const Rwkv7GpuWeights<Real>& weights_;
  GpuSane sane_;
  int64_t vocabulary_;
  GpuTensor<float> unread_state_;  // of all rows that nobody reads
  std::optional<GpuExecutor<Real>> executor_;
  // Of as many sequences as the executor has room for: states, then positions.
  GpuBuffer places_;
  PinnedBuffer places_here_, tokens_here_;
  struct Recorded {
    int64_t rows, chunks;
    auto operator<=>(const Recorded&) const = default;
  };
  std::map<Recorded, GpuGraph> recorded_;  // empty for what came once
};

}  // namespace deltasane
