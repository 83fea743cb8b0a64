// Endless text, made or read from files: the same for the same description on every machine.
//
// A source is a function from a number to a piece of text, so a stream is resumed by keeping one
// number and nothing is ever stored. "math-chat:seed=1,split=train" and the like describe one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace deltasane::corpus {

// Bytes [begin, end) of a piece that a model should learn to write: answers, not questions.
struct Stretch {
  size_t begin, end;
};

struct Piece {
  std::string text;
  std::vector<Stretch> learned;  // in order, apart
  // A source of tokens has these instead of text; its stretches count them, not bytes.
  std::vector<int32_t> tokens{};
};

class Source {
 public:
  virtual ~Source() = default;
  virtual Piece piece(uint64_t index) const = 0;
  // How many pieces there are before they come again; none: they never do, or this is a mixture.
  virtual std::optional<uint64_t> pieces() const { return std::nullopt; }
  // What a mixture is made of, down to sources that are none; this one itself if it is none.
  virtual std::vector<const Source*> parts() const { return {this}; }
  virtual std::string description() const = 0;  // in full: every default spelled out
};

std::unique_ptr<Source> open_source(std::string_view description);

// Where a token stream stands: `token` tokens of piece `piece` have been read.
struct Cursor {
  uint64_t piece = 0, token = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// A source's pieces as one stream of tokens; each piece is encoded by itself.
class TokenStream {
 public:
  TokenStream(const Source& source, const Tokenizer& tokenizer, Cursor from = {});

  // The next tokens, and 1 for each that should be learned (absent: not wanted).
  void read(std::span<int32_t> tokens, std::span<uint8_t> learned = {});
  Cursor cursor() const { return cursor_; }

 private:
  void refill();

  const Source& source_;
  const Tokenizer& tokenizer_;
  Cursor cursor_;
  std::vector<int32_t> tokens_;   // of the piece at the cursor
  std::vector<uint8_t> learned_;  // beside them
};

}  // namespace deltasane::corpus
