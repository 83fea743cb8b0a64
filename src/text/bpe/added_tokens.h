// Finds added tokens in a text: the leftmost first, of several at one place the longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/definition.h"

namespace deltasane {

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The first one at or after `from`: the bytes it takes, with the white space that it takes along.
  // White space before `from` is never taken. No match: begin and end are the end of the text.
  struct Match {
    size_t begin, end;
    const AddedToken* token;  // null: none
  };
  Match next(std::string_view text, size_t from) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  std::array<bool, 256> begins_{};  // by first byte
};

}  // namespace deltasane
