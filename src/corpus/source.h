// Endless text, generated or read from files: the same for the same description on every machine.
//
// A source is a pure function from an index to a piece of text, so a stream is resumed from one
// number. A description is text such as "math-chat:seed=1,split=train".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "text/tokenizer.h"

namespace deltasane::corpus {

// Bytes [begin, end) of a piece that count in the loss: answers, not questions.
struct Span {
  size_t begin, end;
};

struct Piece {
  std::string text;
  std::vector<Span> learned;  // sorted and disjoint
  // A source of tokens has these instead of text; its spans then count tokens.
  std::vector<int32_t> tokens{};
};

class Source {
 public:
  virtual ~Source() = default;
  virtual Piece piece(uint64_t index) const = 0;
  // Pieces per epoch; none: the source never repeats, or is a mixture.
  virtual std::optional<uint64_t> pieces() const { return std::nullopt; }
  // The leaves of a mixture; this source itself if it is not a mixture.
  virtual std::vector<const Source*> parts() const { return {this}; }
  virtual std::string description() const = 0;  // with every default spelled out
  virtual std::vector<fs::path> files() const { return {}; }  // that its text is in
};

std::unique_ptr<Source> open_source(std::string_view description);

// Changes with the content of a source's files (base/io/file_digest.h); 0: it has none.
uint64_t content_digest(const Source& source);

// The position of a token stream: `token` tokens of piece `piece` have been read.
struct Cursor {
  uint64_t piece = 0, token = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// A source's pieces as one stream of tokens; each piece is encoded by itself.
class TokenStream {
 public:
  TokenStream(const Source& source, const Tokenizer& tokenizer, Cursor from = {});

  // The next tokens, and their loss mask (1: learned) unless `learned` is empty.
  void read(std::span<int32_t> tokens, std::span<uint8_t> learned = {});
  Cursor cursor() const { return cursor_; }

 private:
  void refill();

  const Source& source_;
  const Tokenizer& tokenizer_;
  Cursor cursor_;
  std::vector<int32_t> tokens_;   // of the piece at the cursor
  std::vector<uint8_t> learned_;  // their loss mask
};

}  // namespace deltasane::corpus
