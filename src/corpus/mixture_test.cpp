#include <gtest/gtest.h>

#include "base/io/file.h"
#include "corpus/source.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::corpus {
namespace {

bool is_chat(const Piece& piece) { return piece.text.starts_with("User: "); }

class Mixture : public testing::Test {
 protected:
  Mixture() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += cat("Line ", i, " of a text that is not chat.\n\n");
    replace_file(scratch_.path() / "a (1), b.txt", text);
  }
  std::string text_source() const { return cat("text:\"", scratch_.path(), "/a (1), b.txt\""); }
  test::Scratch scratch_;
};

TEST_F(Mixture, KeepsSharesOfBytes) {
  const auto source = open_source(cat("mixed:0.7*(math-chat:seed=1)+0.3*(", text_source(), ")"));
  double chat = 0, total = 0;
  for (uint64_t i = 0; i < 65536; ++i) {
    const Piece piece = source->piece(i);
    total += double(piece.text.size());
    if (is_chat(piece)) chat += double(piece.text.size());
  }
  EXPECT_NEAR(chat / total, 0.7, 0.03);  // the mean of 256 pieces is off by some percent
}

TEST_F(Mixture, KeepsSharesOfPiecesExactlyAndEachSourcesOrder) {
  const auto source =
      open_source(cat("mixed:3*(math-chat:seed=1)+1*(", text_source(), "),by=pieces,seed=9"));
  const auto chat = open_source("math-chat:seed=1"), text = open_source(text_source());
  uint64_t chats = 0, texts = 0;
  for (uint64_t i = 0; i < 65536 + 100; ++i) {
    if (i == 65536) {
      EXPECT_EQ(chats, 49152u);
    }
    const Piece piece = source->piece(i);
    ASSERT_EQ(piece.text,
              (is_chat(piece) ? *chat : *text).piece(is_chat(piece) ? chats++ : texts++).text);
  }
}

TEST_F(Mixture, NestsAndDescribesItselfInFull) {
  const auto source = open_source(
      cat("mixed:0.5*(mixed:1*(math-chat:level=1)+2*(", text_source(), "))+0.5*(math-chat:)"));
  const auto again = open_source(source->description());
  EXPECT_EQ(again->description(), source->description());
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(again->piece(i).text, source->piece(i).text);
  const auto order = [&](int seed) {
    const auto mixed =
        open_source(cat("mixed:1*(math-chat:)+1*(", text_source(), "),by=pieces,seed=", seed));
    std::string kinds;
    for (uint64_t i = 0; i < 100; ++i) kinds += is_chat(mixed->piece(i)) ? 'c' : 't';
    return kinds;
  };
  EXPECT_NE(order(1), order(2));
}

TEST(MixtureFaults, AreNamed) {
  const auto open = [](const char* text) { return open_source(text); };
  EXPECT_FAULT(open("mixed:"), Fault::usage, "SHARE*(SOURCE)");
  EXPECT_FAULT(open("mixed:0*(math-chat:)"), Fault::usage, "a share above 0");
  EXPECT_FAULT(open("mixed:-1*(math-chat:)"), Fault::usage, "a share above 0");
  EXPECT_FAULT(open("mixed:nan*(math-chat:)"), Fault::usage, "a share above 0");
  EXPECT_FAULT(open("mixed:1*math-chat:"), Fault::usage, "SHARE*(SOURCE)");
  EXPECT_FAULT(open("mixed:1*(math-chat:"), Fault::usage, "closing parenthesis");
  EXPECT_FAULT(open("mixed:1*(math-chat:)2"), Fault::usage, "expected + or ,");
  EXPECT_FAULT(open("mixed:1*(math-chat:)+"), Fault::usage, "SHARE*(SOURCE)");
  EXPECT_FAULT(open("mixed:1*(math-chat:),by=words"), Fault::usage, "bytes, pieces");
  EXPECT_FAULT(open("mixed:1*(math-chat:sed=1)"), Fault::usage, "The closest is 'seed'");
}

}  // namespace
}  // namespace deltasane::corpus
