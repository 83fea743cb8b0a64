// One stream of a GPU with all that the tokens in it need: activations of a block of tokens, the
// library of products, scratch memory; and a layer (model/rwkv7/block.h) on such a block.
#pragma once

#include <deque>
#include <optional>

#include "kernel/activation/cuda.h"
#include "kernel/delta_rule/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/norm/cuda.h"
#include "kernel/sane/cuda.h"
#include "kernel/state_scan/cuda.h"
#include "kernel/time_mix/cuda.h"
#include "kernel/token_shift/cuda.h"
#include "model/rwkv7/decode/batch.h"
#include "model/rwkv7/gpu/weights.h"

namespace deltasane {

inline constexpr int64_t gpu_block_tokens = 4096;  // of all sequences, taken at a time

// Whose tokens a block has: up to `rows.time` of each of a few sequences that are at one position,
// or one of each of many.
struct TokenBlock {
  kernel::cuda::RowBlock rows;
  int64_t slots = 0;                   // few: sequences that shifts and memory have room for
  float* shifts = nullptr;             // few: (layer, 2, slots, C)
  float* memory = nullptr;             // few: (layer, slots, head, 64, 64)
  // Few, on the GPU, where sequences have different lengths: how many tokens each has, and which row
  // its last one is. null: all have rows.time
  const int32_t *lengths = nullptr, *last_rows = nullptr;
  int64_t position = 0;                // few: of the first token
  int64_t chunks = 0;                  // few: that end in each; many: 1 if one of them ends one
  float* const* states = nullptr;      // many: their numbers, on the GPU
  const int64_t* positions = nullptr;  // many, on the GPU
  // On the GPU; null: GpuSane's. Few: (sequences, layer, head). Many: (layer, head), for all.
  const float* alphas = nullptr;
  // Few, where the alphas follow the heads and are to be set after this block.
  std::optional<kernel::cuda::AdaptAlphas> follow;
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
  GpuWorkspace(const rwkv7::LayerSizes& sizes, int64_t vocabulary, int64_t capacity, int64_t chunks,
               const Gpu& gpu);

  GpuTensor<float> x, raw_w, w;
  GpuTensor<Real> mixes;  // (6, rows, C): r k v g w a, as batched products read them
  GpuTensor<Real> rkv;    // (3, rows, C)
  GpuTensor<Real> raw_a, a, b, gate, g, y, v_first;
  GpuTensor<Real> low;      // (rows, ranks)
  GpuTensor<Real> hidden;   // (rows, F)
  // Of the products of 17 to most_tall rows (kernel/matmul/grouped/tall.cu): sums that x lacks, for the
  // next norm to add. (most_parts, rows, C)
  static constexpr int64_t most_tall = 32, most_parts = 4;
  GpuTensor<float> parts;
  GpuTensor<Real> x_tau;    // (chunks, C)
  GpuTensor<float> z, tau;  // (chunks, H); tau: (layer, chunks, H)
  GpuTensor<Real> normed;   // (slice, C)
  GpuTensor<float> logits;  // (slice, vocabulary)
  GpuTensor<double> loss;   // (rows)
  GpuTensor<int32_t> tokens, targets;
  int64_t capacity, chunks, slice;
};

// A stream and the library of products for it.
struct ProductStream {
  ProductStream(std::shared_ptr<const Gpu> stream, uint64_t workspace)
      : gpu(std::move(stream)), products(*gpu, 0, workspace) {}
  // c = a b', or added to it; (rows, inner) (columns, inner).
  template <class Real, class Out>
  void multiply(const Real* a, const Real* b, Out* c, int64_t rows, int64_t columns, int64_t inner,
                bool add = false);
  // What is enqueued next starts after all that the other one has.
  void wait_for(ProductStream& other);

  std::shared_ptr<const Gpu> gpu;
  kernel::cuda::Products products;
  GpuEvent done;  // for who waits
};

template <class Real>
class GpuExecutor {
 public:
  // Low-rank products, of which none waits for another: in the executor's stream, or each in one of
  // its own.
  enum class Branches { one_stream, own_streams };
  GpuExecutor(std::shared_ptr<const Gpu> stream, const Rwkv7GpuWeights<Real>& weights,
              const GpuSane& sane, int64_t vocabulary, int64_t capacity, int64_t chunks,
              Branches branches = Branches::one_stream);

  // ws.tokens become ws.x.
  void embed(const TokenBlock& block);
  // One layer, all of it: x and the state are carried on.
  void layer(int64_t index, const TokenBlock& block);
  // Of SANE at run time, where alphas of a block have been there since.
  void set_constant_taus();
  // Logits of the rows [from, from + count), count <= ws.slice, into ws.logits. Not while recording.
  void logits(int64_t from, int64_t count);

  std::shared_ptr<const Gpu> gpu;
  GpuWorkspace<Real> ws;

 private:
  class Layer;  // the steps of block.h
  // Up to so many rows, products with quantized matrices are ours: a tile of 16 reads 4.5 to 8.5 bits of a
  // weight, where expanding it first moves 32 more.
  static constexpr int64_t most_rows_of_blocks = 64;
  // c = a b', or added to it, in the executor's stream; a quantized b becomes bf16 in `room` first.
  template <class Out>
  void multiply(const Real* a, const kernel::cuda::GpuMatrix<Real>& b, Out* c, int64_t rows,
                int64_t columns, int64_t inner, bool add, GpuTensor<Real>& room);

  const Rwkv7GpuWeights<Real>& weights_;
  GpuSane sane_;
  bool has_constant_taus_ = false;
  int added_ = 0;  // of ws.parts: how many x lacks now
  int64_t vocabulary_;
  ProductStream main_;
  GpuTensor<Real> expanded_, expanded_head_;  // a quantized matrix, for many rows
  std::deque<ProductStream> branches_;  // by LowRank; tau's is that of v
  kernel::cuda::DeltaRuleScratch scratch_;
};

}  // namespace deltasane
