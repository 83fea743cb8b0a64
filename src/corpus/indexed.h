// Token ids from a pair of files X.bin and X.idx (format/indexed_tokens.h), over and over.
//
//   binidx:X,piece=items,order=file,seed=1
//
// piece=items: an item, which is a document, is a piece; piece=512: so many tokens, across items.
// All of it is learned. order=shuffled gives another order each round. order=rwkv-lm with
// piece=N gives the samples of RWKV-LM's trainer in its order, N + 1 tokens each:
//
//     sample i begins at token ((f (i + 1)^3) mod p) N        f = floor(p (sqrt 5 - 1) / 2)
//
// p: the largest prime that leaves 2 when divided by 3 and is at most tokens / N - 1, so that the
// cube is a permutation.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_indexed(std::string_view rest);

// p above, for so many whole contexts; 0 where there are too few.
uint64_t sample_prime(uint64_t contexts);
// Which context sample `index` is, from 0.
uint64_t sample_place(uint64_t index, uint64_t prime);

}  // namespace deltasane::corpus
