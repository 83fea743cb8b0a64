// One token of one sequence through an RWKV-7 on a GPU, from its embedding to the logits, in one
// kernel: a block on every multiprocessor, all of them resident at the same time. The steps of a
// layer are those of small_batch.h. Weight is float or bf16; activations, states and sums are
// float. The kernel of ../token.h would take one sequence too, and took 19 % longer.
#pragma once

#include <cstdint>
#include <optional>

#include "model/rwkv7/decode/token.h"

namespace deltasane::rwkv7::one {

// What differs from token to token; `before`: how many tokens there were since the numbers that
// blocks exchange were 0.
struct NextToken {
  int32_t token;
  uint32_t before;
  int64_t position;
  float* state;  // as DecodeInputs says
};
// How a block's shared memory is divided: computed once, used for every token.
struct TokenSharedMemory {
  int64_t area, own_rows;  // floats
  int64_t bytes;           // of all
};
// None where the GPU lacks the shared memory, a block for each head, or work for each block.
template <class Weight>
std::optional<TokenSharedMemory> token_shared_memory(const LayerSizes& sizes, const Gpu& gpu);
// What blocks exchange: floats, 0 before the first token and then left alone.
inline int64_t exchanged_numbers(const LayerSizes& s) {
  return 2 * s.channels + s.rows_of_in(true) + s.rows_of_in(false) + s.feed_forward;
}
template <class Weight>
void decode_token(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                  const TokenSharedMemory& shared, const DecodeSane& sane, const NextToken& next,
                  float* exchanged, float* logits, const Gpu& gpu);

}  // namespace deltasane::rwkv7::one
