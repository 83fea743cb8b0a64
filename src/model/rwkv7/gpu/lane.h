// One queue of a GPU with all that the tokens in it need: activations of a block, the library of
// products, scratch memory; and what a layer does to a block.
#pragma once

#include <deque>
#include <optional>

#include "kernel/delta_rule/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_many.h"
#include "kernel/rwkv7/cuda_states.h"
#include "model/rwkv7/gpu/weights.h"

namespace deltasane {

inline constexpr int64_t gpu_block_tokens = 4096;  // of all sequences, taken at a time

// Whose tokens a block has: as many of each of a few sequences that are at one position, or one of
// each of many.
struct GpuBlock {
  kernel::cuda::RowBlock rows;
  float* shifts = nullptr;             // few: (layer, 2, sequences, C)
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
  GpuTensor<Real> normed;   // (slice, C)
  GpuTensor<float> logits;  // (slice, vocabulary)
  GpuTensor<double> loss;   // (rows)
  GpuTensor<int32_t> tokens, targets;
  int64_t capacity, chunks, slice;
};

// A queue and the library of products for it.
struct GpuLine {
  GpuLine(std::shared_ptr<const Gpu> queue, uint64_t workspace)
      : gpu(std::move(queue)), products(*gpu, 0, workspace) {}
  // c = a b', or added to it; (rows, inner) (columns, inner).
  template <class Real, class Out>
  void multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns, int64_t inner,
                bool add = false);
  // What is asked for next starts after all that the other one was asked for.
  void follow(GpuLine& other);

  std::shared_ptr<const Gpu> gpu;
  kernel::cuda::Products products;
  GpuEvent done;  // for who follows
};

template <class Real>
class GpuLane {
 public:
  // Low-rank products, of which none waits for another: in the lane's queue, or each in its own.
  enum class Branches { in_turn, beside };
  GpuLane(std::shared_ptr<const Gpu> queue, const Rwkv7GpuWeights<Real>& weights,
          const GpuSane& sane, int64_t vocabulary, int64_t capacity, int64_t chunks,
          Branches branches = Branches::in_turn);

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
  GpuLine& branch(int which);
  void part_ways();
  void meet();
  // The norm of x, mixed with that of the token before, into ws.mixes, and ws.x_tau where a chunk
  // ends.
  enum class Mix { time, channel };
  void shift_and_mix(int64_t index, Mix which, const GpuBlock& block);
  Real* mixed(int64_t slot, const GpuBlock& block);
  void time_mix(int64_t index, const GpuBlock& block);
  void multiply_mixes(int64_t index, const GpuBlock& block);
  bool heads_multiply(const GpuBlock& block) const;
  // From these products to ws.y, what the output matrix reads.
  void step(int64_t index, const GpuBlock& block, const float* tau);
  void recur_in_parts(int64_t index, const GpuBlock& block, const float* tau);
  void recur(int64_t index, const GpuBlock& block, const float* tau);
  void channel_mix(int64_t index, const GpuBlock& block);
  const float* taus(int64_t index, const GpuBlock& block, GpuLine& line);
  void own_taus(int64_t index, const GpuBlock& block, float* tau, const Gpu& queue);

  const Rwkv7GpuWeights<Real>& weights_;
  GpuSane sane_;
  bool has_constant_taus_ = false;
  int64_t vocabulary_;
  GpuLine main_;
  std::deque<GpuLine> branches_;
  kernel::cuda::DeltaRuleScratch scratch_;
};

}  // namespace deltasane
