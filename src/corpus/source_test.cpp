#include "corpus/source.h"

#include <gtest/gtest.h>

#include "corpus/description.h"
#include "support/errors.h"

namespace deltasane::corpus {
namespace {

// FNV-1a over the text and the learned spans of the first 1,000 pieces.
uint64_t checksum(const Source& source) {
  uint64_t hash = 0xCBF29CE484222325u;
  const auto take = [&](uint64_t byte) { hash = (hash ^ byte) * 0x100000001B3u; };
  for (uint64_t i = 0; i < 1000; ++i) {
    const Piece piece = source.piece(i);
    for (const char c : piece.text) take(uint8_t(c));
    for (const Span& span : piece.learned) {
      take(span.begin);
      take(span.end);
    }
  }
  return hash;
}

TEST(Source, GivesTheSameBytesOnEveryMachine) {
  EXPECT_EQ(checksum(*open_source("math-chat:seed=1")), 0xE8218EB56F74AF15u);
  EXPECT_EQ(checksum(*open_source("math-chat:seed=2,language=both,split=held-out")),
            0x39B256D3CCCC371Eu);
  EXPECT_EQ(checksum(*open_source("math-chat:seed=3,style=sentence,level=3,language=zh")),
            0xAE485BFC5CB45148u);
  EXPECT_EQ(checksum(*open_source("mixed:1*(math-chat:level=1)+2*(math-chat:language=zh)")),
            0xD48159B5D4A2554Au);
}

TEST(Source, NamesUnknownKinds) {
  EXPECT_FAULT(open_source("math-chta:seed=1"), Fault::usage, "The closest is 'math-chat'");
  EXPECT_FAULT(open_source(""), Fault::usage, "corpus");
}

TEST(Options, ReadQuotedTextAndWriteItBack) {
  const std::string text = "a, \"b\"\n\\c";
  Options options("kind", "path.txt,template=" + quoted_if_needed(text),
                  Options::Subject::required);
  EXPECT_EQ(options.subject(), "path.txt");
  EXPECT_EQ(options.text("template", ""), text);
  EXPECT_NO_THROW(options.done());
  EXPECT_EQ(quoted_if_needed("plain/path.txt"), "plain/path.txt");
  EXPECT_FAULT(Options("kind", "a=\"b", Options::Subject::none), Fault::usage, "closing quote");
  EXPECT_FAULT(Options("kind", "a=\"\\x\"", Options::Subject::none), Fault::usage, "inside quotes");
  EXPECT_FAULT(Options("kind", "a=\"b\"c", Options::Subject::none), Fault::usage, "a comma after");
  EXPECT_FAULT(Options("kind", "", Options::Subject::required), Fault::usage, "found no path");
}

}  // namespace
}  // namespace deltasane::corpus
