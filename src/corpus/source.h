// Endless text, generated or read from files: the same for the same description on every machine.
//
// A source is a pure function from an index to a piece of text, so a stream is resumed from one
// number. A description is text such as "math-chat:seed=1,split=train".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

// What became of the rows of a data set.
struct RowCounts {
  uint64_t rows = 0, kept = 0;
  std::map<std::string, uint64_t> dropped;  // by reason
  uint64_t without_checksums = 0;           // Parquet files in which damage may not be noticed
};

class Source {
 public:
  virtual ~Source() = default;
  virtual Piece piece(uint64_t index) const = 0;
  // Pieces per epoch; none: the source never repeats, or is a mixture.
  virtual std::optional<uint64_t> pieces() const { return std::nullopt; }
  // The pieces before the first one that comes again; none: it never does.
  virtual std::optional<uint64_t> pieces_before_repeat() const { return pieces(); }
  // Of a data set; none for other sources.
  virtual std::optional<RowCounts> row_counts() const { return std::nullopt; }
  // The leaves of a mixture; this source itself if it is not a mixture.
  virtual std::vector<const Source*> parts() const { return {this}; }
  virtual std::string description() const = 0;  // with every default spelled out
  virtual std::vector<fs::path> files() const { return {}; }  // that its text is in
};

// Called now and then while a file is read as a whole: its name, what is done and all there is.
using OpeningProgress = std::function<void(const std::string& file, uint64_t done, uint64_t all)>;

std::unique_ptr<Source> open_source(std::string_view description,
                                    const OpeningProgress& progress = {});

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
