#include <gtest/gtest.h>

#include "base/random.h"
#include "corpus/source.h"
#include "support/errors.h"
#include "text/byte_tokenizer.h"

namespace deltasane::corpus {
namespace {

// Two bytes per token, one for an odd last byte: tokens that cross the ends of spans.
class PairTokenizer final : public Tokenizer {
 public:
  PairTokenizer() {
    for (int32_t id = 0; id < vocabulary_size(); ++id)
      bytes_.push_back(id < 256 ? std::string(1, char(id))
                                : std::string{char((id - 256) / 256), char((id - 256) % 256)});
  }
  std::string_view name() const override { return "pairs"; }
  int32_t vocabulary_size() const override { return 256 + 65536; }
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  std::string_view bytes_of(int32_t id) const override { return bytes_[size_t(id)]; }
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override {
    for (size_t at = 0; at < text.size(); at += 2)
      ids.push_back(at + 1 < text.size() ? 256 + uint8_t(text[at]) * 256 + uint8_t(text[at + 1])
                                         : uint8_t(text[at]));
  }

 private:
  std::vector<std::string> bytes_;
};

// Piece i has i % 4 letters, and the last of them is learned; token pieces where i is a multiple
// of 5.
class Letters final : public Source {
 public:
  Piece piece(uint64_t index) const override {
    Piece piece;
    if (index % 5 == 0) {
      piece.tokens = {int32_t(index % 200), 7, 9};
      piece.learned = {{1, 2}};
      return piece;
    }
    piece.text.assign(index % 4, char('a' + index % 26));
    if (!piece.text.empty()) piece.learned = {{piece.text.size() - 1, piece.text.size()}};
    return piece;
  }
  std::string description() const override { return "letters"; }
};

void expect_resumes_anywhere(const Source& source, const Tokenizer& tokenizer) {
  constexpr size_t total = 3000;
  std::vector<int32_t> whole(total), tokens(total);
  std::vector<uint8_t> whole_learned(total), learned(total);
  TokenStream(source, tokenizer).read(whole, whole_learned);
  Random random(3);
  Cursor cursor;
  for (size_t done = 0; done < total;) {
    TokenStream stream(source, tokenizer, cursor);
    const size_t count = std::min<size_t>(random.below(40), total - done);
    stream.read(std::span(tokens).subspan(done, count), std::span(learned).subspan(done, count));
    done += count;
    cursor = stream.cursor();
  }
  EXPECT_EQ(tokens, whole);
  EXPECT_EQ(learned, whole_learned);
  TokenStream undisturbed(source, tokenizer);
  undisturbed.read(tokens);  // without a mask
  EXPECT_EQ(undisturbed.cursor(), cursor);
  EXPECT_EQ(tokens, whole);
}

TEST(TokenStream, ResumedAnywhereEqualsNeverStopped) {
  expect_resumes_anywhere(*open_source("math-chat:seed=1,language=both"), ByteTokenizer());
  expect_resumes_anywhere(*open_source("math-chat:seed=1,language=both"), PairTokenizer());
  expect_resumes_anywhere(Letters(), ByteTokenizer());
  expect_resumes_anywhere(Letters(), PairTokenizer());
}

TEST(TokenStream, ConcatenatesThePieces) {
  const auto source = open_source("math-chat:seed=4,language=both");
  for (const Tokenizer* tokenizer :
       std::initializer_list<const Tokenizer*>{new ByteTokenizer, new PairTokenizer}) {
    std::vector<int32_t> expected;
    std::vector<uint8_t> flags;
    for (uint64_t i = 0; i < 50; ++i) {
      const Piece piece = source->piece(i);
      size_t byte = 0;
      for (const int32_t id : tokenizer->encode(piece.text)) {
        expected.push_back(id);
        flags.push_back(byte >= piece.learned[0].begin && byte < piece.learned[0].end);
        byte += tokenizer->bytes_of(id).size();
      }
    }
    std::vector<int32_t> tokens(expected.size());
    std::vector<uint8_t> learned(expected.size());
    TokenStream stream(*source, *tokenizer);
    stream.read(tokens, learned);
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(learned, flags);
    EXPECT_EQ(stream.cursor(), (Cursor{50, 0}));
    delete tokenizer;
  }
}

TEST(TokenStream, AcceptsACursorAtAPiecesEnd) {
  const Letters source;
  const ByteTokenizer tokenizer;
  TokenStream stream(source, tokenizer, {3, 3});
  std::vector<int32_t> tokens(3);
  stream.read(tokens);  // piece 4 is empty, piece 5 is tokens
  EXPECT_EQ(tokens, (std::vector<int32_t>{5, 7, 9}));
}

TEST(TokenStream, RejectsInvalidCursorsAndTokens) {
  EXPECT_FAULT(TokenStream(Letters(), ByteTokenizer(), {3, 4}), Fault::argument, "has 3 tokens");
  class Foreign final : public Source {
   public:
    Piece piece(uint64_t) const override { return {{}, {}, {256}}; }
    std::string description() const override { return "foreign"; }
  };
  class Nothing final : public Source {
   public:
    Piece piece(uint64_t) const override { return {}; }
    std::string description() const override { return "nothing"; }
  };
  const ByteTokenizer tokenizer;
  const Foreign foreign;
  const Nothing nothing;
  std::vector<int32_t> tokens(1);
  EXPECT_FAULT(TokenStream(foreign, tokenizer).read(tokens), Fault::file, "ids below 256");
  EXPECT_FAULT(TokenStream(nothing, tokenizer).read(tokens), Fault::file, "empty pieces");
}

}  // namespace
}  // namespace deltasane::corpus
