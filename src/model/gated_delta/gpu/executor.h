// The layers of a model (block.h) on a GPU, for a block of rows: tokens of several sequences, each
// with its own position and state.
#pragma once

#include <span>

#include "kernel/attention/cuda.h"
#include "kernel/delta_rule/cuda.h"
#include "kernel/experts/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/matmul/few_rows/product.h"
#include "kernel/rows/ragged_rows.h"
#include "model/gated_delta/gpu/weights.h"
#include "model/gpu/memory_plan.h"
#include "model/gpu/states.h"
#include "model/tau_record.h"

namespace deltasane::gated_delta {

// The next tokens of a sequence.
struct GpuInput {
  std::span<const int32_t> tokens;
  SequenceState* state = nullptr;
  TauRecord* taus = nullptr;
};

template <class Real>
class GpuExecutor {
 public:
  // capacity: rows of a block, and of its sequences, at most.
  GpuExecutor(std::shared_ptr<const Gpu> gpu, const GpuWeights<Real>& weights, const SaneUse& sane,
              const GpuCacheStorage& storage, int64_t capacity);

  // The block's tokens, positions and states, into memory that the GPU copies from in run().
  // Positions and states are those before the block.
  void set(std::span<const GpuInput> inputs, GpuStates& states);
  // All layers; the states are carried on. With the same number of rows and sequences, where each
  // has one row and no sequence has alphas of its own, the work can be captured and repeated; with
  // experts, only that of few rows.
  void run();
  // What SANE used, to the records of the inputs that have one. Waits.
  void record_taus();
  // Of the rows [from, from + count), count <= slice(), or of rows that were kept; on the GPU.
  float* logits(int64_t from, int64_t count);
  float* logits_of_kept(int64_t from, int64_t count);
  // Copies a row to the kept ones: (capacity of sequences) of them.
  void keep_row(int64_t row, int64_t to);
  // -log p of the targets of the rows [from, from + losses.size()), in the memory of the block.
  void losses(int64_t from, std::span<const int32_t> targets, std::span<double> losses);

  int64_t capacity() const { return capacity_; }
  int64_t slice() const { return slice_; }
  float* last_logits() const { return logits_; }  // of the last call
  bool can_repeat() const;
  // Changes when memory that captured work uses was moved.
  const void* scratch() const { return attention_scratch_.data(); }
  const Gpu& gpu() const { return *gpu_; }

 private:
  class Block;
  class FewTokens;
  static constexpr int64_t kept_rows = 1024;
  void place(MemoryPlan& plan);
  void place_latent(MemoryPlan& plan);
  void place_experts(MemoryPlan& plan);
  template <class Out>
  void multiply(const Real* rows, const Real* matrix, Out* to, int64_t count, int64_t columns,
                int64_t inner, bool add = false);
  float* head(const float* x, int64_t count);
  void set_taus();
  bool takes_few_tokens() const;
  int64_t chunks_of(const GpuInput& one) const;

  std::shared_ptr<const Gpu> gpu_;
  const GpuWeights<Real>& weights_;
  const Config& c;
  SaneUse sane_;
  GpuCacheStorage storage_;
  int64_t capacity_, slice_;
  kernel::cuda::Products products_;
  kernel::cuda::DeltaRuleScratch rule_scratch_;
  kernel::cuda::AttentionScratch attention_scratch_;

  // Activations, (rows, columns) each.
  GpuBuffer memory_;
  float *x = nullptr, *z = nullptr, *z_decay = nullptr, *g = nullptr, *beta = nullptr,
        *z_tau = nullptr, *tau = nullptr, *chunk_tau = nullptr, *kept_ = nullptr,
        *logits_ = nullptr;
  Real *h = nullptr, *in = nullptr, *low = nullptr, *gate = nullptr, *r = nullptr, *k = nullptr,
       *v = nullptr, *y = nullptr, *hidden = nullptr, *normed_ = nullptr;
  Real *latent_q = nullptr, *latent_y = nullptr, *heads_wide = nullptr, *heads_narrow = nullptr;
  float *router = nullptr, *expert_hidden = nullptr, *expert_out = nullptr, *shared_z = nullptr;
  Real *expert_in = nullptr, *expert_both = nullptr;
  kernel::Choice* chosen = nullptr;
  int32_t *slot_rows = nullptr, *slot_places = nullptr;
  float *few_in_ = nullptr, *few_y_ = nullptr;  // of few tokens
  double* loss_ = nullptr;
  int32_t* targets_ = nullptr;

  // Of the block, in the host's memory and in the GPU's at the same places.
  struct Places {
    int32_t *tokens, *sequence, *first, *length;
    int64_t *position, *capacity;
    float** states;
    Real** caches;
  };
  Places placed(std::byte* base) const;
  uint64_t places_bytes() const;
  GpuBuffer places_;
  PinnedBuffer places_here_;
  std::vector<GpuInput> inputs_;
  kernel::cuda::RaggedRows rows_;
  std::vector<float> alphas_here_;
  GpuTensor<float> alphas_;  // (sequences, heads of all layers)
  bool has_alphas_ = false, has_constant_taus_ = false;

  struct Recorded {
    TauRecord* to;
    int64_t layer, from, count;  // in taus_
    int64_t end() const { return from + count; }
  };
  std::vector<Recorded> recorded_;
  GpuTensor<float> taus_;
  std::vector<float> taus_here_;
};

}  // namespace deltasane::gated_delta
