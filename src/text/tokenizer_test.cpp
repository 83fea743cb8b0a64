#include <gtest/gtest.h>

#include "support/errors.h"
#include "text/byte_tokenizer.h"
#include "text/tokenizer_bench.h"
#include "text/vocabulary/fixture_vocabulary.h"
#include "text/world_tokenizer.h"

namespace deltasane {
namespace {

using Ids = std::vector<int32_t>;

WorldTokenizer small_world() { return WorldTokenizer(Vocabulary(test::small_tokens(), "small")); }

TEST(ByteTokenizer, IdsAreBytes) {
  const ByteTokenizer tokenizer;
  const std::string text("a\0\xFF", 3);
  EXPECT_EQ(tokenizer.encode(text), (Ids{97, 0, 255}));
  EXPECT_EQ(tokenizer.decode(Ids{97, 0, 255, 256, -1}), text);
  EXPECT_EQ(tokenizer.vocabulary_size(), 256);
  EXPECT_EQ(tokenizer.end_of_document(), std::nullopt);
  EXPECT_EQ(tokenizer.name(), "byte");
}

TEST(WorldTokenizer, MatchesTheLongestToken) {
  const WorldTokenizer tokenizer = small_world();
  const auto pieces = [&](std::string_view text) {
    std::vector<std::string_view> result;
    for (const int32_t id : tokenizer.encode(text)) result.push_back(tokenizer.bytes_of(id));
    return result;
  };
  using Pieces = std::vector<std::string_view>;
  EXPECT_EQ(pieces(""), Pieces{});
  EXPECT_EQ(pieces("x"), Pieces{"x"});
  EXPECT_EQ(pieces("abcdef"), Pieces{"abcdef"});
  EXPECT_EQ(pieces("abcdeabc"), (Pieces{"abcd", "e", "ab", "c"}));  // backtracks to the last token
  EXPECT_EQ(pieces(" thein"), (Pieces{" the", "i", "n"}));
  EXPECT_EQ(pieces("12341231"), (Pieces{"1234", "123", "1"}));
  EXPECT_EQ(pieces(std::string(137, ' ')),
            (Pieces{std::string(128, ' '), std::string(8, ' '), " "}));
}

TEST(WorldTokenizer, AppendsToExistingIds) {
  const WorldTokenizer tokenizer = small_world();
  Ids ids{7};
  tokenizer.append_encoded("a", ids);
  tokenizer.append_encoded("b", ids);
  EXPECT_EQ(ids, (Ids{7, 98, 99}));
}

TEST(WorldTokenizer, IdsWithoutBytesDecodeToNothing) {
  const WorldTokenizer tokenizer = small_world();
  EXPECT_EQ(tokenizer.end_of_document(), 0);
  EXPECT_EQ(tokenizer.name(), "world");
  for (const int32_t id : {0, -1, tokenizer.vocabulary_size(), 65535, INT32_MAX, INT32_MIN})
    EXPECT_EQ(tokenizer.bytes_of(id), "") << id;
  EXPECT_EQ(tokenizer.decode(Ids{98, 0, 99, 70000}), "ab");
}

TEST(WorldTokenizer, KeepsWorkingAfterItIsMoved) {
  WorldTokenizer first = small_world();
  const WorldTokenizer tokenizer = std::move(first);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("the abcd")), "the abcd");
}

TEST(WorldTokenizer, AgreesWithTheReferenceOnRandomText) {
  const WorldTokenizer tokenizer = small_world();
  const test::ReferenceTokenizer reference(tokenizer);
  Random random(1);
  for (int round = 0; round < 4000; ++round) {
    const std::string text = test::random_text(random, tokenizer, 300);
    const Ids ids = tokenizer.encode(text);
    ASSERT_EQ(ids, reference.encode(text)) << round;
    ASSERT_EQ(tokenizer.decode(ids), text) << round;
  }
}

TEST(WorldTokenizer, AgreesWithTheReferenceOnRandomVocabularies) {
  Random random(2);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> tokens = test::small_tokens();
    tokens.resize(257);
    const uint64_t letters = 2 + random.below(255), longest = 1 + random.below(20);
    std::unordered_map<std::string, int> known;
    for (int tries = 0; tries < 2000; ++tries) {
      std::string token(2 + random.below(longest), ' ');
      for (char& c : token) c = char(random.below(letters) + 256 - letters);
      if (known.emplace(token, 0).second) tokens.push_back(token);
    }
    const WorldTokenizer tokenizer{Vocabulary(tokens, "random")};
    const test::ReferenceTokenizer reference(tokenizer);
    for (int i = 0; i < 20; ++i) {
      const std::string text = test::random_text(random, tokenizer, 3000);
      ASSERT_EQ(tokenizer.encode(text), reference.encode(text)) << round;
    }
  }
}

TEST(TokenizerBench, MeasuresARate) {
  const EncodeRate rate = measure_encode_rate(small_world(), "the 1234 abcd", 0);
  EXPECT_GT(rate.megabytes_per_second, 0);
  EXPECT_EQ(rate.passes, 3);
  EXPECT_FAULT(measure_encode_rate(small_world(), "", 0), Fault::usage, "at least one byte");
}

}  // namespace
}  // namespace deltasane
