#include "text/vocabulary/gguf_tokens.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "text/vocabulary/fixture_vocabulary.h"

namespace deltasane {
namespace {

std::vector<std::string> escaped_tokens() {
  std::vector<std::string> tokens;
  for (const std::string& token : test::small_tokens()) tokens.push_back(gguf_escaped(token));
  tokens[0] = "<s>";
  return tokens;
}

std::string read_last(std::string_view token) {
  std::vector<std::string> tokens = escaped_tokens();
  tokens.emplace_back(token);
  return parse_gguf_tokens(tokens).tokens().back();
}

TEST(GgufTokens, RoundTrip) {
  EXPECT_EQ(parse_gguf_tokens(escaped_tokens()).tokens(), test::small_tokens());
}

TEST(GgufTokens, Unescapes) {
  EXPECT_EQ(read_last(R"(\t\n\r\\\'x)"), "\t\n\r\\'x");
  EXPECT_EQ(read_last(R"(\xe4\xBDz)"), "\xE4\xBDz");
  EXPECT_EQ(read_last(R"(\q\"\u00)"), "q\"u00");  // a backslash before other characters is dropped
  EXPECT_EQ(read_last("it's \xE4\xBD\xA0"), "it's \xE4\xBD\xA0");
}

TEST(GgufTokens, PaddingHasNoBytes) {
  EXPECT_EQ(read_last("[PAD65530]"), "");
  EXPECT_EQ(read_last(""), "");
  EXPECT_EQ(read_last("[PAD]"), "[PAD]");
  EXPECT_EQ(read_last("[PADx]"), "[PADx]");
  EXPECT_EQ(read_last("[PAD7"), "[PAD7");
}

TEST(GgufTokens, NamesTheTokenThatItRejects) {
  const std::string location = cat("tokenizer.ggml.tokens: token ", escaped_tokens().size(), ": ");
  EXPECT_FAULT(read_last("ab\\"), Fault::file, location + "column 4: expected a character after");
  EXPECT_FAULT(read_last("\\x1"), Fault::file,
               location + "column 3: expected 2 hexadecimal digits");
  EXPECT_FAULT(read_last("\\xg0"), Fault::file,
               location + "column 3: expected 2 hexadecimal digits");
  EXPECT_FAULT(read_last("ab"), Fault::file, location + "expected a distinct token, found 'ab'");
  EXPECT_FAULT(parse_gguf_tokens({}), Fault::file, "expected a token for every byte");
}

}  // namespace
}  // namespace deltasane
