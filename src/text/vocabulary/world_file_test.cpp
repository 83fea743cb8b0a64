#include "text/vocabulary/world_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/errors.h"
#include "support/scratch.h"
#include "text/vocabulary/fixture_vocabulary.h"
#include "text/world_tokenizer.h"

namespace deltasane {
namespace {

const std::string whole = test::world_lines(test::small_tokens());
const auto next_id = int64_t(test::small_tokens().size());

TEST(WorldFile, ReadsWhatWasWritten) {
  EXPECT_EQ(parse_world_file(whole, "v").tokens(), test::small_tokens());
}

TEST(WorldFile, IsWrittenFromATokenizer) {
  std::vector<std::string> tokens = test::small_tokens();
  for (const char* const odd : {"a'\\\"b", "\n\n\r\t", "\xC2\x80", "\xC2\xA0", "\xE2\x80\xA8x\xE2\x80\xA9",
                                "\xE4\xBD\xA0", "\xE4\xBD", "\xC2", "x\x7F\x01y"})
    if (std::ranges::find(tokens, odd) == tokens.end()) tokens.push_back(odd);
  const std::string text = world_file_of(WorldTokenizer(Vocabulary(tokens, "v")));
  EXPECT_EQ(parse_world_file(text, "v").tokens(), tokens);
  EXPECT_NE(text.find(R"( 'a\'\\"b' 5)"), text.npos);
  EXPECT_NE(text.find(R"( '\x80' 2)"), text.npos);
  EXPECT_NE(text.find(R"( b'\xc2' 1)"), text.npos);
}

TEST(WorldFile, ReadsCopiesWithOtherLineEnds) {
  std::string crlf;
  for (const char c : whole) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(parse_world_file(crlf, "v").tokens(), test::small_tokens());
  const std::string_view unended = std::string_view(whole).substr(0, whole.size() - 1);
  EXPECT_EQ(parse_world_file(unended, "v").tokens(), test::small_tokens());
  crlf.pop_back(), crlf.pop_back();
  EXPECT_EQ(parse_world_file(crlf, "v").tokens(), test::small_tokens());
}

TEST(WorldFile, IsReadFromDiskByName) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "vocab.txt";
  replace_file(path, whole);
  EXPECT_EQ(world_from_file(path).vocabulary_size(), next_id);
  replace_file(path, whole + "x\n");
  EXPECT_FAULT(world_from_file(path), Fault::file, cat(path, ": line ", next_id, ": column 1"));
  EXPECT_FAULT(world_from_file(scratch.path() / "none"), Fault::file, "No such file");
}

TEST(WorldFile, NamesTheLineThatItRejects) {
  const auto rejected = [](std::string_view line, std::string_view part) {
    const std::string bytes = cat(whole, line, "\n");
    EXPECT_FAULT(parse_world_file(bytes, "v.txt"), Fault::file,
                 cat("v.txt: line ", next_id, ": ", part));
  };
  const auto with_id = [](std::string_view rest) { return cat(next_id, " ", rest); };
  rejected("", "column 1: expected an id");
  rejected("-3 'x' 1", "column 1: expected an id");
  rejected("007 'x' 1", "column 1: expected an id");
  rejected("99999999999999999999 'xyz' 3", "column 1: expected an id");
  rejected("0 'xyz' 3", cat("expected id ", next_id, ", found 0, which is the end of document"));
  rejected("5 'xyz' 3", cat("expected id ", next_id, ", found 5, which an earlier line has"));
  rejected(cat(next_id + 1, " 'xyz' 3"), cat("expected id ", next_id, ", found ", next_id + 1));
  rejected(cat(next_id), "column 4: expected a space after the id, found the end");
  rejected(with_id("xyz 3"), "column 5: expected a literal in quotes, found 'xyz 3'");
  rejected(with_id("'xyz 3"), "column 11: expected a closing quote, found the end");
  rejected(with_id("'xyz'3"), "column 10: expected a space after the literal");
  rejected(with_id("'xyz' "), "column 11: expected a length in bytes");
  rejected(with_id("'xyz' 9999"), "column 11: expected a length in bytes");
  rejected(with_id("'xyz' 3 "), "column 12: expected the end of the line");
  rejected(with_id("'xyz' 4"), "expected a literal of 4 bytes, found 3 in 'xyz'");
  rejected(with_id("'' 0"), "expected a token of at least one byte");
  rejected(with_id("'ab' 2"), "expected a distinct token, found 'ab' as in line 259");
}

TEST(WorldFile, RejectsSizesBeyondItsLimits) {
  const size_t longest = Vocabulary::max_token_bytes;
  const auto line = [](size_t size) {
    return cat(next_id, " '", std::string(size, 'x'), "' ", size);
  };
  EXPECT_EQ(parse_world_file(whole + line(longest), "v").tokens().back().size(), longest);
  EXPECT_FAULT(parse_world_file(whole + line(longest + 1), "v"), Fault::file, "length in bytes");

  std::vector<std::string> tokens = test::small_tokens();
  for (int i = 0; i < 5000; ++i) tokens.push_back(cat(i, std::string(1000, 'x')));
  EXPECT_FAULT(Vocabulary(tokens, "v"), Fault::file, "bytes in all tokens");
  tokens.assign(size_t(Vocabulary::max_tokens) + 1, "");
  EXPECT_FAULT(Vocabulary(tokens, "v"), Fault::file, "v: expected at most 1048576 tokens");
}

TEST(WorldFile, NeedsEveryByte) {
  EXPECT_FAULT(parse_world_file("", "v"), Fault::file, "v: expected a token for every byte");
  std::vector<std::string> tokens = test::small_tokens();
  tokens[66] = "another";
  EXPECT_FAULT(Vocabulary(tokens, "v"), Fault::file, "found none for 'A'");
  tokens = test::small_tokens();
  tokens[0] = "<s>";
  EXPECT_FAULT(Vocabulary(tokens, "v"), Fault::file, "no bytes for id 0");
}

// A truncated file is rejected where that is detectable: inside a line, or by a missing byte token.
TEST(WorldFile, EveryTruncationIsRejectedOrAPrefix) {
  for (size_t size = 0; size < whole.size(); ++size) {
    try {
      const Vocabulary part = parse_world_file(std::string_view(whole).substr(0, size), "v");
      ASSERT_GE(part.tokens().size(), 257u);
      ASSERT_TRUE(whole[size] == '\n' || whole[size - 1] == '\n') << size;
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::file);
    }
  }
}

// A changed byte may turn a token into another of the same length, and only that.
TEST(WorldFile, EveryFlippedBitIsRejectedOrChangesOneToken) {
  const std::vector<std::string> tokens = test::small_tokens();
  int accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string corrupted = whole;
      corrupted[at] = char(corrupted[at] ^ 1 << bit);
      try {
        const Vocabulary read = parse_world_file(corrupted, "v");
        ++accepted;
        ASSERT_EQ(read.tokens().size(), tokens.size());
        int changed = 0;
        for (size_t id = 0; id < tokens.size(); ++id) {
          changed += read.tokens()[id] != tokens[id];
          ASSERT_EQ(read.tokens()[id].size(), tokens[id].size());
        }
        ASSERT_LE(changed, 1);
      } catch (const Error& error) {
        ASSERT_EQ(error.fault(), Fault::file);
        ASSERT_TRUE(std::string_view(error.what()).starts_with("v: ")) << error.what();
      }
    }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace deltasane
