// Cuts a text into the pieces that merges stay inside of.
//
// Published tokenizers say this with a regular expression. Only those below are known; each is
// matched by hand, in one pass, and a test compares the pieces with those of PCRE2.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace deltasane {

struct Pretokenizer {
  enum class Kind {
    none,   // the whole text is one piece
    words,  // cl100k, Llama 3, Qwen2, Qwen3.5
    gpt2,
    kimi,  // Han runs apart, words by case
  };
  Kind kind = Kind::none;
  bool marks = false;  // words: combining marks belong to words, as letters do
  int digits = 3;      // words: a number has at most this many

  bool operator==(const Pretokenizer&) const = default;

  // The length of the first piece of a text that is not empty; at least one byte.
  size_t first_piece(std::string_view text) const;

  // The expression that it stands for; of `none` the empty text.
  std::string expression() const;
};

// Nothing: the expression is not known.
std::optional<Pretokenizer> pretokenizer_of_expression(std::string_view expression);

}  // namespace deltasane
