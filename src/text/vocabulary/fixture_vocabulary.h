// For tests: a vocabulary small enough for exhaustive corruption, and a reference tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "text/tokenizer.h"

namespace deltasane::test {

// Id 0 without bytes, the 256 bytes as ids 1 .. 256, then a few dozen longer ones: prefixes of
// each other, gaps between prefixes, text in several scripts, halves of characters, quotes.
std::vector<std::string> small_tokens();

// The tokens from id 1 on in the World file format.
std::string world_lines(const std::vector<std::string>& tokens);

// Greedy longest match by trying every length, longest first.
class ReferenceTokenizer {
 public:
  explicit ReferenceTokenizer(const Tokenizer& tokenizer);
  std::vector<int32_t> encode(std::string_view text) const;

 private:
  std::unordered_map<std::string_view, int32_t> ids_;
  size_t longest_ = 0;
};

// Texts of up to `max_bytes` bytes, each of one of the kinds: random bytes, few distinct bytes,
// concatenated tokens, truncated tokens, characters from all Unicode planes.
std::string random_text(Random& random, const Tokenizer& tokenizer, size_t max_bytes);

}  // namespace deltasane::test
