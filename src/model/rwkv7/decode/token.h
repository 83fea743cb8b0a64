// One token of each of up to eight sequences through an RWKV-7 on a GPU, from their embeddings to the
// logits, in one kernel: a block on every multiprocessor, all of them resident at the same time. The
// steps of a layer are those of small_batch.h. Weight is float or bf16; activations, states and sums
// are float, and inputs of products with bf16 weights are rounded as weight_tile.cuh says.
#pragma once

#include <cstdint>
#include <optional>

#include "base/half.h"
#include "model/rwkv7/decode/layer_weights.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::rwkv7 {

template <class Weight>
struct TokenWeights {
  const LayerWeights<Weight>* layers;            // on the GPU
  const Weight* embedding;                       // (vocabulary, C)
  const float *embedding_gain, *embedding_bias;  // of its norm; null: none
  const float *norm_weight, *norm_bias;
  const Weight* head;  // (vocabulary, C)
  int64_t vocabulary;
  NormEpsilons eps;
};
inline constexpr int most_tokens = 8;
// What differs from step to step; `before`: how many steps there were since the numbers that blocks
// exchange were 0.
struct NextTokens {
  int count;  // sequences
  uint32_t before;
  int32_t token[most_tokens];
  int64_t position[most_tokens];
  float* state[most_tokens];  // as DecodeInputs says
};
// How a block's shared memory is divided: computed once, used for every step.
struct TokenSharedMemory {
  int64_t area, own_rows, v_first;  // floats; own_rows: of a sequence
  int64_t bytes;                    // of all
};
// For a token of each of so many sequences. None where the GPU lacks the shared memory, or work for
// each block.
template <class Weight>
std::optional<TokenSharedMemory> token_shared_memory(const LayerSizes& sizes, int sequences,
                                                     const Gpu& gpu);
// Local memory of a thread of the kernel for so many sequences. It must be 0: what is spilled is read
// again for each product, from L2 behind the weights in flight, and all blocks wait for it.
template <class Weight>
int64_t token_local_bytes(const LayerSizes& sizes, int sequences);
// What blocks exchange at steps of so many sequences: floats, 0 before the first step and then left
// alone.
inline int64_t exchanged_numbers(const LayerSizes& s, int sequences) {
  return sequences *
         (2 * s.channels + s.rows_of_in(true) + s.rows_of_in(false) + s.feed_forward);
}
// logits: (sequences, vocabulary).
template <class Weight>
void decode_tokens(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                   const TokenSharedMemory& shared, const DecodeSane& sane, const NextTokens& next,
                   float* exchanged, float* logits, const Gpu& gpu);

}  // namespace deltasane::rwkv7
