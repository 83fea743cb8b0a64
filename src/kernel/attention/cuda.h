// Causal attention with grouped heads (attention.h) over caches in a GPU's memory, for the sequences
// of a block. Real is float or bf16: the type of queries, keys, values and results; scores and sums
// are float.
//
// q   (rows, H, D), `q_step` numbers from row to row
// y   (rows, H, D), packed
//
// Latent attention has no values of its own: the first `latents` numbers of a key are its value, and y
// is (rows, H, latents).
//
// Prompts with bf16 and heads of 64, 128 or 256 channels are read in tiles on the tensor cores; other
// prompts, and single tokens, row by row, with the rows that a token sees split between blocks.
//
// reference.h is the definition.
#pragma once

#include "base/half.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

// The caches of the sequences: those of all layers of a sequence lie one after another, each
// (capacity, 2, G, D), of latent attention (capacity, D). The token at position p has row p, or, where there is a ring and p >= fixed,
// row fixed + (p - fixed) % ring.
template <class Real>
struct KeyValueCaches {
  Real* const* caches = nullptr;      // (sequences), on the GPU
  const int64_t* capacity = nullptr;  // (sequences): rows, on the GPU
  int64_t number = 0;                 // of the layer's cache
  int64_t fixed = 0, ring = 0;        // ring 0: none
};

template <class Real>
struct AppendRows {
  RaggedRows rows;
  KeyValueCaches<Real> cache;
  int64_t row = 0;   // numbers of a row: 2 G D
  const Real* from = nullptr;  // (rows, row)
  int64_t step = 0;  // from row to row
};
template <class Real>
void append_to_cache(const AppendRows<Real>& op, const Gpu& gpu);

inline constexpr int64_t most_attention_channels = 576;  // of a head's keys

template <class Real>
struct Attention {
  RaggedRows rows;
  KeyValueCaches<Real> cache;  // with the rows of the block's own tokens
  int64_t heads = 0, kv_heads = 0, size = 0;
  const Real* q = nullptr;
  int64_t q_step = 0;
  float scale = 1;
  int64_t window = 0, kept = 0;
  Real* y = nullptr;
  int64_t latents = 0;  // 0: keys and values

  int64_t values() const { return latents ? latents : size; }  // of a head
};

// Memory for results of parts of a cache. It grows as needed.
class AttentionScratch {
 public:
  float* floats(const Gpu& gpu, int64_t count);
  const float* data() const { return memory_.data(); }

 private:
  GpuTensor<float> memory_;
};

template <class Real>
void attention(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu);
// The two ways, for tests. by_tiles: bf16 only, with a head size that it takes.
template <class Real>
void attention_by_rows(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu);
void attention_by_tiles(const Attention<bf16>& op, const Gpu& gpu);
bool has_attention_tiles(int64_t size);

}  // namespace deltasane::kernel::cuda
