#include <gtest/gtest.h>

#include "base/random.h"
#include "text/bpe/fixture_pcre2.h"
#include "text/bpe/pretokenizer.h"
#include "text/utf8.h"

namespace deltasane {
namespace {

using Kind = Pretokenizer::Kind;
using TextPieces = std::vector<std::string>;

constexpr Pretokenizer cl100k{Kind::words, false, 3}, qwen2{Kind::words, false, 1},
    qwen35{Kind::words, true, 1}, gpt2{Kind::gpt2}, kimi{Kind::kimi};

TextPieces pieces_of(const Pretokenizer& pretokenizer, std::string_view text) {
  TextPieces pieces;
  while (!text.empty()) {
    const size_t size = pretokenizer.first_piece(text);
    if (size == 0 || size > text.size()) {
      ADD_FAILURE() << "a piece of " << size << " bytes";
      break;
    }
    pieces.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

TEST(Pretokenizer, CutsAsItsExpressionSays) {
  EXPECT_EQ(pieces_of(cl100k, "Hello world's 12345!\n\n  x"),
            (TextPieces{"Hello", " world", "'s", " ", "123", "45", "!\n\n", " ", " x"}));
  EXPECT_EQ(pieces_of(qwen35, "a1234 b"), (TextPieces{"a", "1", "2", "3", "4", " b"}));
  EXPECT_EQ(pieces_of(qwen2, "e\u0301x"), (TextPieces{"e", "\u0301x"}));  // a mark begins a word
  EXPECT_EQ(pieces_of(qwen35, "e\u0301x"), (TextPieces{"e\u0301x"}));
  EXPECT_EQ(pieces_of(cl100k, "IT'\u017Fa 'LLx"), (TextPieces{"IT", "'\u017F", "a", " '", "LLx"}));
  EXPECT_EQ(pieces_of(cl100k, "a \n \n b"), (TextPieces{"a", " \n \n", " b"}));
  EXPECT_EQ(pieces_of(gpt2, "don't DON'T 123456  x\n"),
            (TextPieces{"don", "'t", " DON", "'", "T", " 123456", " ", " x", "\n"}));
  EXPECT_EQ(pieces_of(kimi, "你好abcDEFghi'll \u4E00x"),
            (TextPieces{"你好", "abc", "DEFghi'll", " ", "\u4E00", "x"}));
  EXPECT_EQ(pieces_of({}, "all of it 1 2"), TextPieces{"all of it 1 2"});
}

TEST(Pretokenizer, IsFoundByItsExpression) {
  for (const Pretokenizer& known : {cl100k, qwen2, qwen35, gpt2, kimi})
    EXPECT_EQ(pretokenizer_of_expression(known.expression()), known);
  EXPECT_EQ(pretokenizer_of_expression(""), std::nullopt);
  EXPECT_EQ(pretokenizer_of_expression(cl100k.expression() + " "), std::nullopt);
  EXPECT_EQ(pretokenizer_of_expression(R"(\s+)"), std::nullopt);
}

TEST(Pretokenizer, TakesAnyBytes) {
  Random random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string text(random.below(40), ' ');
    for (char& c : text) c = char(random.below(3) ? random.below(256) : " \n'sA\xE4"[random.below(6)]);
    for (const Pretokenizer& known : {cl100k, qwen35, gpt2, kimi}) {
      std::string joined;
      for (const std::string& piece : pieces_of(known, text)) joined += piece;
      ASSERT_EQ(joined, text);
    }
  }
}

// Whether PCRE2's version of Unicode has the character.
bool known_to_pcre2(char32_t c) {
  std::string text = "a";
  append_utf8(text, c);
  return test::pcre2_pieces(R"(a(?=\p{Cn}))", text)->size() == 1;
}

// Characters that the expressions tell apart, more often than others.
std::string random_characters(Random& random) {
  constexpr std::u32string_view frequent =
      U"    \n\r\t'''sStTrReEvVmMlLdD\u017F\u212AaAzZ019.,-_!?\u0301\u0308\u0903\u0085\u00A0"
      U"\u2028\u3000\u200B\uFEFF\u4E00\u6F22\u3007\u2E80\u3005\u3042\u30AB\uAC00\u01C5\u02B0"
      U"\u00AA\u00BD\u2160\u0660\u0410\u0431\u0391\u03C9\u05D0\u0627\u0E01\u0E31\u0915\u093F"
      U"\U0001F600\U0001D400\U00020000\u20E3\uFE0F\u200D";
  std::string text;
  for (uint64_t left = random.below(24); left > 0; --left) {
    char32_t c = frequent[random.below(frequent.size())];
    if (random.below(6) == 0) c = char32_t(random.below(0x3100));
    if (random.below(12) == 0) c = char32_t(random.below(0x20000));
    if (!unicode_scalar(c) || c == 0) continue;
    // Mongolian's vowel separator has changed its class between versions.
    if (c != 0x180E && known_to_pcre2(c))
      for (uint64_t times = 1 + random.below(8) / 6 * random.below(4); times > 0; --times)
        append_utf8(text, c);
  }
  return text;
}

TEST(Pretokenizer, AgreesWithPcre2) {
  // PCRE2 has no intersections of classes.
  std::string kimi_expression = kimi.expression();
  const std::string_view intersection = "&&[^\\p{Han}]]";
  for (size_t at; (at = kimi_expression.find(intersection)) != std::string::npos;) {
    kimi_expression.replace(at, intersection.size(), "])");
    kimi_expression.insert(kimi_expression.rfind('[', at), "(?:(?!\\p{Han})");
  }
  // Its Han is the property Script_Extensions unless told otherwise.
  for (size_t at = 0; (at = kimi_expression.find("{Han}", at)) != std::string::npos;)
    kimi_expression.replace(at, 5, "{sc:Han}");
  if (!test::pcre2_pieces("a", "a")) GTEST_SKIP() << "PCRE2 is not installed";
  const std::pair<Pretokenizer, std::string> judged[]{{cl100k, cl100k.expression()},
                                                      {qwen2, qwen2.expression()},
                                                      {qwen35, qwen35.expression()},
                                                      {gpt2, gpt2.expression()},
                                                      {kimi, kimi_expression}};
  Random random(6);
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = random_characters(random);
    for (const auto& [own, expression] : judged)
      ASSERT_EQ(pieces_of(own, text), *test::pcre2_pieces(expression, text))
          << text << "\n" << expression;
  }
}

}  // namespace
}  // namespace deltasane
