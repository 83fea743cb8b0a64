#include <gtest/gtest.h>

#include "base/timing.h"
#include "support/errors.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/byte_letters.h"
#include "text/bpe/fixture_bpe.h"
#include "text/utf8.h"

namespace deltasane {
namespace {

using Ids = std::vector<int32_t>;
using Alphabet = BpeDefinition::Alphabet;

TEST(ByteLetters, AreOneToOne) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, char(byte));
    EXPECT_TRUE(valid_utf8(letters_of_bytes(bytes)));
    EXPECT_EQ(bytes_of_letters(letters_of_bytes(bytes)), bytes);
  }
  EXPECT_EQ(letters_of_bytes(" \n"), "\u0120\u010A");
  EXPECT_EQ(bytes_of_letters("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_letters("\u2581"), std::nullopt);
  EXPECT_EQ(bytes_of_letters("\xFF"), std::nullopt);
}

std::string random_text(Random& random, size_t longest) {
  constexpr std::string_view letters[]{"a", "b", "c", " ", "\u00E9", "\n", "x", "\u4E00", "\xFF",
                                       "\xC3", "7", "aa", "ab"};
  std::string text;
  const uint64_t kinds = 2 + random.below(std::size(letters) - 1);
  for (uint64_t left = random.below(longest); left > 0; --left)
    text += letters[random.below(kinds)];
  return text;
}

class RandomBpe : public testing::TestWithParam<Alphabet> {};

TEST_P(RandomBpe, EncodesAsTheDefinitionSays) {
  Random random(31);
  for (int round = 0; round < 30; ++round) {
    BpeDefinition definition = test::random_bpe(random, GetParam(), 5 + random.below(60));
    const BpeDefinition written = definition;
    definition.normalizers.clear();
    definition.pretokenizer = {};
    const BpeTokenizer tokenizer(definition);
    for (int i = 0; i < 40; ++i) {
      std::string text = random_text(random, 60);
      const Ids ids = tokenizer.encode(text);
      std::vector<std::string> found;
      for (const int32_t id : ids) found.push_back(written.tokens[size_t(id)]);
      ASSERT_EQ(found, test::reference_pieces(written, text)) << text;
    }
  }
}

TEST_P(RandomBpe, DecodesWhatItEncoded) {
  Random random(32);
  for (int round = 0; round < 20; ++round) {
    BpeDefinition definition = test::random_bpe(random, GetParam(), 40);
    // NFC would change texts.
    if (GetParam() == Alphabet::bytes) definition.normalizers.clear();
    const BpeTokenizer tokenizer(definition);
    for (int i = 0; i < 50; ++i) {
      std::string text = random_text(random, 80);
      // Over characters, a space is put behind an added token, too.
      if (random.below(2))
        text += GetParam() == Alphabet::bytes ? "<|end|> <think>a<|im_start|>" : "<|end|> a";
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Alphabets, RandomBpe,
                         testing::Values(Alphabet::bytes, Alphabet::characters),
                         [](const auto& which) {
                           return which.param == Alphabet::bytes ? "bytes" : "characters";
                         });

BpeDefinition small_bpe() {
  Random random(33);
  BpeDefinition definition = test::random_bpe(random, Alphabet::bytes, 0);
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"a", "a"}, {"aa", "aa"}, {"a", "b"}}) {
    definition.merges.emplace_back(left, right);
    definition.tokens.push_back(left + right);
  }
  for (AddedToken& token : definition.added) token.id += 3;
  return definition;
}

TEST(BpeTokenizer, RecognizesSpecialTokensOnRequest) {
  const BpeTokenizer tokenizer(small_bpe());
  const int32_t end = *tokenizer.special_token("<|end|>");
  EXPECT_EQ(tokenizer.encode("a<|end|>b", SpecialTokens::recognized), (Ids{'a', end, 'b'}));
  EXPECT_EQ(tokenizer.encode("a<|end|>b").size(), 9u);
  EXPECT_EQ(tokenizer.decode(Ids{'a', end, 'b'}), "ab");
  EXPECT_EQ(tokenizer.decode(Ids{'a', end, 'b'}, SpecialTokens::recognized), "a<|end|>b");
  EXPECT_EQ(tokenizer.special_token("<think>"), std::nullopt);  // added, and text
  EXPECT_EQ(tokenizer.encode("<think>").size(), 1u);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<think>")), "<think>");
  for (const int32_t id : {-1, INT32_MIN, tokenizer.vocabulary_size(), INT32_MAX})
    EXPECT_EQ(tokenizer.bytes_of(id), "") << id;
}

TEST(BpeTokenizer, AddedTokensTakeTheLongestAndTheirSpace) {
  BpeDefinition definition = small_bpe();
  const int32_t first = definition.added.back().id + 1;
  definition.added.push_back({first, "<x", false});
  definition.added.push_back({first + 1, "<xy", false});
  definition.added.push_back({first + 2, "<both>", false, false, true, true});
  definition.added.push_back({first + 3, "\u00E9!", false, true});  // looked for in NFC
  const BpeTokenizer tokenizer(definition);
  EXPECT_EQ(tokenizer.encode("<xyz"), (Ids{first + 1, 'z'}));
  EXPECT_EQ(tokenizer.encode("<x<xy<x"), (Ids{first, first + 1, first}));
  EXPECT_EQ(tokenizer.encode("a \u3000<both>\n <both> b"), (Ids{'a', first + 2, first + 2, 'b'}));
  EXPECT_EQ(tokenizer.encode("e\u0301!"), (Ids{first + 3}));
}

TEST(BpeTokenizer, IgnoresMergesWhereTheFileSaysSo) {
  BpeDefinition definition = small_bpe();
  definition.tokens.resize(definition.tokens.size() + 4);
  definition.tokens.back() = "ba";  // no merge makes it
  const auto whole = int32_t(definition.tokens.size() - 1);
  EXPECT_EQ(BpeTokenizer(definition).encode("ba"), (Ids{'b', 'a'}));
  definition.ignore_merges = true;
  EXPECT_EQ(BpeTokenizer(definition).encode("ba"), (Ids{whole}));
}

TEST(BpeTokenizer, PutsSpacesInFront) {
  Random random(34);
  BpeDefinition definition = test::random_bpe(random, Alphabet::characters, 0);
  const auto text_of = [](const BpeDefinition& d, std::string_view text) {
    std::string out;
    const BpeTokenizer tokenizer(d);
    for (const int32_t id : tokenizer.encode(text, SpecialTokens::recognized))
      out += cat(tokenizer.bytes_of(id), tokenizer.special_name(id), "|");
    return out;
  };
  EXPECT_EQ(text_of(definition, "a<|end|>b"), " |a|<|end|>| |b|");
  EXPECT_EQ(text_of(definition, " a"), " | |a|");
  definition.normalizers.clear();
  using Prepend = BpeDefinition::Metaspace::Prepend;
  definition.metaspace = {"\u2581", Prepend::first, false};
  EXPECT_EQ(text_of(definition, "a<|end|>b"), " |a|<|end|>|b|");
  EXPECT_EQ(text_of(definition, " a"), " |a|");
  definition.metaspace->prepend = Prepend::never;
  EXPECT_EQ(text_of(definition, "a b"), "a| |b|");
  definition.metaspace->split = true;
  definition.merges = {{"a", "\u2581"}, {"\u2581", "b"}};
  definition.tokens.resize(definition.tokens.size() + 3);  // behind the added tokens
  definition.tokens.insert(definition.tokens.end(), {"a\u2581", "\u2581b"});
  EXPECT_EQ(text_of(definition, "a b"), "a| b|");
  definition.metaspace->split = false;
  EXPECT_EQ(text_of(definition, "a b"), "a |b|");
}

TEST(BpeTokenizer, LongWordsTakeNoQuadraticTime) {
  const BpeTokenizer tokenizer(small_bpe());
  const double begin = seconds_now();
  for (const std::string& unit : std::vector<std::string>{"a", "ab", "aab", "<", "\xCC\x81", "'"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)).size(), text.size()) << unit;
  }
  EXPECT_LT(seconds_now() - begin, 60);  // quadratic: hours
}

TEST(BpeTokenizer, RejectsWhatIsNoTokenizer) {
  const auto change = [](const auto& edit) {
    BpeDefinition definition = small_bpe();
    edit(definition);
    return BpeTokenizer(std::move(definition));
  };
  EXPECT_FAULT(change([](auto& d) { d.tokens[7].clear(); }), Fault::file, "found none for byte");
  EXPECT_FAULT(change([](auto& d) { d.tokens[300 % 256] = "a"; }), Fault::file, "found it as");
  EXPECT_FAULT(change([](auto& d) { d.merges.emplace_back("a", "zz"); }), Fault::file,
               "tokens of the vocabulary");
  EXPECT_FAULT(change([](auto& d) { d.merges.emplace_back("b", "b"); }), Fault::file,
               "expected a token 'bb'");
  EXPECT_FAULT(change([](auto& d) { d.merges.emplace_back("", "a"); }), Fault::file,
               "tokens of the vocabulary");
  EXPECT_FAULT(change([](auto& d) { d.merges.push_back(d.merges[0]); }), Fault::file,
               "found it twice");
  EXPECT_FAULT(change([](auto& d) { d.added.push_back(d.added[0]); }), Fault::file,
               "found it twice");
  EXPECT_FAULT(change([](auto& d) { d.added[0].id = 5; }), Fault::file, "an id of its own");
  EXPECT_FAULT(change([](auto& d) { d.added[0].id = 1 << 30; }), Fault::file, "an id below");
  EXPECT_FAULT(change([](auto& d) { d.added[0].id = -1; }), Fault::file, "an id below");
  EXPECT_FAULT(change([](auto& d) { d.added[0].content.clear(); }), Fault::file, "1 to");
  EXPECT_FAULT(change([](auto& d) { d.start = {1 << 20}; }), Fault::file, "start of a document");
  EXPECT_FAULT(change([](auto& d) { d.tokens[0] = std::string(9000, 'a'); }), Fault::file,
               "at most 4096 bytes");
}

}  // namespace
}  // namespace deltasane
