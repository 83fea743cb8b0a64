// Token ids from a pair of files X.bin and X.idx (format/npy/indexed_tokens.h), repeated forever.
//
//   binidx:X,piece=items,order=file,seed=1
//
// piece=items: a piece is an item, which is a document; piece=512: this many tokens, across items.
// All tokens are learned. order=shuffled reshuffles every epoch. order=rwkv-lm with piece=N gives
// the samples of RWKV-LM's trainer in its order, N + 1 tokens each:
//
//     sample i begins at token ((f (i + 1)^3) mod p) N        f = floor(p (sqrt 5 - 1) / 2)
//
// where p is the largest prime with p mod 3 = 2 and p <= tokens / N - 1, so that the cube is a
// permutation modulo p.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_indexed(std::string_view rest);

// p above, for this many whole contexts; 0 if there are too few.
uint64_t sample_prime(uint64_t contexts);
// The index of the context of sample `index`.
uint64_t sample_context(uint64_t index, uint64_t prime);

}  // namespace deltasane::corpus
