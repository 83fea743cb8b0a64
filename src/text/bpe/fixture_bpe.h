// For tests: small byte-pair encodings made from a seed, and the plain definition of encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "text/bpe/definition.h"
#include "text/tokenizer.h"

namespace deltasane::test {

// All bytes, and tokens merged from random pairs, some of them in several ways. Short alphabets
// give many merges that compete. Added: <|end|> and <|im_start|> (special), <think>.
BpeDefinition random_bpe(Random& random, BpeDefinition::Alphabet alphabet, size_t merges);

// One piece, by the definition: the neighbours of the lowest rank are joined, the leftmost first,
// until none has a merge.
std::vector<std::string> reference_pieces(const BpeDefinition& definition, std::string_view piece);

}  // namespace deltasane::test
