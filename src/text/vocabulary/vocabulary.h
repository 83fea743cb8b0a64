// The bytes of every token of a vocabulary, by id. An id without bytes has the empty string.
//
// Invariants, checked by the constructor: id 0 (end of document) has no bytes, every single byte is
// a token, so that every text can be encoded, no two tokens are equal, and the limits hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

class Vocabulary {
 public:
  // Limits for untrusted input, at least eight times what the World vocabulary has.
  static constexpr int64_t max_tokens = int64_t{1} << 20;
  static constexpr size_t max_token_bytes = 1024;
  static constexpr size_t max_total_bytes = size_t{4} << 20;

  // Fails with Fault::file if an invariant does not hold. `name` and `kind` are for the message, as
  // in "vocab.txt: line 7".
  Vocabulary(std::vector<std::string> tokens, std::string_view name,
             std::string_view kind = "token");

  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
};

}  // namespace deltasane
