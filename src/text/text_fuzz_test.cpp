// Parsers of untrusted input: every input is parsed or rejected with an Error.
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"
#include "text/vocabulary/fixture_vocabulary.h"
#include "text/vocabulary/gguf_tokens.h"
#include "text/vocabulary/world_file.h"
#include "text/world_tokenizer.h"

namespace deltasane {
namespace {

// Deletes, duplicates and overwrites parts of a text, with a bias towards bytes that the formats
// use.
std::string corrupted(Random& random, std::string text) {
  constexpr std::string_view frequent = " '\"\\bxuU09afn\r\n\xE4\xFF";
  for (uint64_t edits = 1 + random.below(4); edits > 0 && !text.empty(); --edits) {
    const size_t at = random.below(text.size());
    const size_t size = 1 + random.below(12);
    const uint64_t kind = random.below(5);
    if (kind == 0)
      text.erase(at, size);
    else if (kind == 1)
      text.insert(at, text.substr(random.below(text.size()), size));
    else if (kind == 2)
      text[at] = frequent[random.below(frequent.size())];
    else if (kind == 3)
      text[at] = char(random.below(256));
    else
      text.insert(at, std::string(size, frequent[random.below(frequent.size())]));
  }
  return text;
}

void expect_round_trip(Vocabulary vocabulary, Random& random) {
  const WorldTokenizer tokenizer(std::move(vocabulary));
  const std::string text = test::random_text(random, tokenizer, 200);
  ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(TextFuzz, WorldFile) {
  Random random(11);
  const std::string whole = test::world_lines(test::small_tokens());
  int read = 0;
  for (int round = 0; round < 6000; ++round) {
    // Half of the time only the end is corrupted, where the longer tokens are.
    const size_t tail = round % 2 ? whole.size() : 500;
    const std::string bytes =
        whole.substr(0, whole.size() - tail) + corrupted(random, whole.substr(whole.size() - tail));
    try {
      Vocabulary vocabulary = parse_world_file(bytes, "fuzzed");
      ++read;
      if (read % 20 == 0) expect_round_trip(std::move(vocabulary), random);
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::file);
      ASSERT_TRUE(std::string_view(error.what()).starts_with("fuzzed: ")) << error.what();
      ASSERT_TRUE(valid_utf8(error.what()));
    }
  }
  EXPECT_GT(read, 0);
}

TEST(TextFuzz, WorldFileOfRandomBytes) {
  Random random(12);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random.below(60), ' ');
    for (char& c : bytes) c = char(random.below(256));
    EXPECT_THROW(parse_world_file("1 '" + bytes, "fuzzed"), Error);
    EXPECT_THROW(parse_world_file(bytes, "fuzzed"), Error);
  }
}

TEST(TextFuzz, GgufTokens) {
  Random random(13);
  std::vector<std::string> whole;
  for (const std::string& token : test::small_tokens()) whole.push_back(gguf_escaped(token));
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> tokens = whole;
    std::string& chosen = tokens[random.below(tokens.size())];
    chosen = corrupted(random, chosen);
    try {
      parse_gguf_tokens(tokens);
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::file);
    }
  }
}

TEST(TextFuzz, Utf8StreamOutputIsIndependentOfChunking) {
  Random random(14);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (uint64_t left = random.below(20); left > 0; --left)
      if (random.below(3) == 0)
        bytes += char(random.below(256));
      else
        append_utf8(bytes, char32_t(random.below(0xD800)));
    if (!bytes.empty() && random.below(2)) bytes.erase(random.below(bytes.size()), 1);

    Utf8Stream at_once;
    std::string expected = at_once.feed(bytes);
    expected += at_once.finish();
    ASSERT_TRUE(valid_utf8(expected));
    ASSERT_EQ(valid_utf8(bytes), bytes == expected);

    Utf8Stream stream;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = random.below(4);
      text += stream.feed(std::string_view(bytes).substr(at, size));
      at += size;
      ASSERT_TRUE(valid_utf8(text));
    }
    text += stream.finish();
    ASSERT_EQ(text, expected);
  }
}

}  // namespace
}  // namespace deltasane
