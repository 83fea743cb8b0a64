// The bytes of every token of a vocabulary, by id. An id without bytes has the empty string.
//
// A vocabulary that exists is sound: id 0 (end of document) has no bytes, every byte is a token of
// its own, so every text can be encoded, no two tokens are the same, and the limits hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

class Vocabulary {
 public:
  // Eight times what the World vocabulary has, or more; a file that asks for more is damaged or
  // hostile.
  static constexpr int64_t most_tokens = int64_t{1} << 20;
  static constexpr size_t longest_token = 1024;
  static constexpr size_t most_bytes = size_t{4} << 20;  // of all tokens together

  // Fails with Fault::file if it would not be sound. `name` and `kind` are for the message, as in
  // "vocab.txt: line 7".
  Vocabulary(std::vector<std::string> tokens, std::string_view name,
             std::string_view kind = "token");

  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
};

}  // namespace deltasane
