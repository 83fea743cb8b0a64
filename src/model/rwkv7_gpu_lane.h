// One queue of a GPU with all that the tokens in it need: activations of a block, the library of
// products, scratch memory; and what a layer does to a block.
#pragma once

#include <optional>

#include "kernel/delta_rule/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_states.h"
#include "model/rwkv7_gpu_weights.h"

namespace deltasane {

inline constexpr int64_t gpu_block_tokens = 4096;  // of all sequences, taken at a time

// Whose tokens a block has: as many of each of a few sequences that are at one position, or one of
// each of many.
struct GpuBlock {
  kernel::cuda::RowBlock rows;
  float* shifts = nullptr;             // (layer, 2, sequences, C)
  float* memory = nullptr;             // few: (layer, sequences, head, 64, 64)
  int64_t position = 0;                // few: of the first token
  int64_t chunks = 0;                  // few: that end in each; many: 1 if one of them ends one
  float* const* states = nullptr;      // many: their numbers, on the GPU
  const int64_t* positions = nullptr;  // many, on the GPU
  // On the GPU; null: GpuSane's. Few: (sequences, layer, head). Many: (layer, head), for all.
  const float* alphas = nullptr;
  // Few, where the alphas follow the heads and are to be set after this block.
  std::optional<kernel::cuda::FollowHeads> follow;
  bool many() const { return states != nullptr; }
};

// The next token of a sequence, whose state's numbers are on the GPU.
struct SingleToken {
  int32_t token;
  int64_t position;
  float* state;
};

struct GpuSane {
  SaneKind kind = SaneKind::none;
  double alpha = 0;
  float constant = 0;  // tau, where it is the same for all
  int64_t chunk = 16;
};

// Activations of up to `capacity` rows, (rows, C) unless said otherwise, packed for the rows of the
// block that is in it.
template <class Real>
struct GpuWorkspace {
  GpuWorkspace(const kernel::cuda::LayerSizes& sizes, int64_t vocabulary, int64_t capacity,
               int64_t chunks, const Gpu& gpu);

  GpuTensor<float> x, raw_w, w;
  GpuTensor<Real> mixes;  // (6, rows, C): r k v g w a
  GpuTensor<Real> rkv;    // (3, rows, C)
  GpuTensor<Real> raw_a, a, b, gate, g, y, v_first;
  GpuTensor<Real> low;      // (rows, ranks)
  GpuTensor<Real> hidden;   // (rows, F)
  GpuTensor<Real> x_tau;    // (chunks, C)
  GpuTensor<float> z, tau;  // (chunks, H); tau: (layer, chunks, H)
  GpuTensor<float> shifts;  // (layer, 2, sequences, C), of many sequences
  GpuTensor<Real> normed;   // (slice, C)
  GpuTensor<float> logits;  // (slice, vocabulary)
  GpuTensor<double> loss;   // (rows)
  GpuTensor<int32_t> tokens, targets;
  int64_t capacity, chunks, slice;
};

template <class Real>
class GpuLane {
 public:
  GpuLane(std::shared_ptr<const Gpu> queue, const Rwkv7GpuWeights<Real>& weights,
          const GpuSane& sane, int64_t vocabulary, int64_t capacity, int64_t chunks);

  // ws.tokens become ws.x.
  void embed(const GpuBlock& block);
  // One layer, all of it: x and the state go on.
  void layer(int64_t index, const GpuBlock& block);
  // Of SANE at run time, where alphas of a block have been there since.
  void set_constant_taus();
  // Logits of the rows [from, from + count), count <= ws.slice, into ws.logits.
  void logits(int64_t from, int64_t count);

  std::shared_ptr<const Gpu> gpu;
  GpuWorkspace<Real> ws;

 private:
  void time_mix(int64_t index, const GpuBlock& block);
  void recur(int64_t index, const GpuBlock& block);
  void channel_mix(int64_t index, const GpuBlock& block);
  float* shift(int64_t index, int64_t which, const GpuBlock& block) const;
  const float* taus(int64_t index, const GpuBlock& block);
  void own_taus(int64_t index, const GpuBlock& block, float* tau);
  // c = a b', or added to it; (rows, inner) (columns, inner).
  template <class Out>
  void multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns, int64_t inner,
                bool add = false);

  const Rwkv7GpuWeights<Real>& weights_;
  GpuSane sane_;
  bool has_constant_taus_ = false;
  int64_t vocabulary_;
  kernel::cuda::Products products_;
  kernel::cuda::DeltaRuleScratch scratch_;
};

}  // namespace deltasane
