#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "text/byte_tokenizer.h"
#include "text/grammar/grammar_matcher.h"
#include "text/utf8.h"

namespace deltasane {
namespace {

bool matches(const std::string& grammar, std::string_view text) {
  GrammarMatcher matcher(std::make_shared<const Grammar>(parse_grammar(grammar)));
  return matcher.advance(text) && GrammarMatcher::can_end(matcher.state());
}

TEST(Grammar, MatchesWhatItSays) {
  const std::string list =
      "# a list\nroot ::= \"[\" (item (\",\" item)*)? \"]\"\n\nitem ::= [0-9]+ | \"x\"\n  | [a-c]{2,3}\n";
  for (const char* const good : {"[]", "[1]", "[12,x,ab]", "[abc]"}) EXPECT_TRUE(matches(list, good)) << good;
  for (const char* const bad : {"", "[", "[1,]", "[a]", "[abca]", "[1]]", "[d]"})
    EXPECT_FALSE(matches(list, bad)) << bad;
  EXPECT_TRUE(matches("root ::= \"a\"? \"b\"{2} \"c\"{1,}", "bbccc"));
  EXPECT_FALSE(matches("root ::= \"a\"? \"b\"{2} \"c\"{1,}", "abb"));
  EXPECT_TRUE(matches("root ::= \"ab\"* \"\\x41\\u00e4\\n\\\"\"", "ababA\u00e4\n\""));
  const std::string nested = "root ::= \"(\" root \")\" | \"\"";
  EXPECT_TRUE(matches(nested, "((()))"));
  EXPECT_FALSE(matches(nested, "((())"));
}

// Classes of characters against the characters themselves, at all ends of lengths.
TEST(Grammar, ClassesAreThoseOfCharacters) {
  const char32_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xFF, 0x100, 0x7FF, 0x800, 0xFFF,
                            0x1000, 0x20AC, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x1F600,
                            0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF};
  for (const char32_t low : edges)
    for (const char32_t high : edges) {
      if (high < low || (low == 0 && high == 0x10FFFF)) continue;
      const auto digits = [](char32_t value) {
        std::string text = "\\U00000000";
        for (size_t i = 9; value; value >>= 4, --i) text[i] = "0123456789ABCDEF"[value & 15];
        return text;
      };
      const auto inside = std::make_shared<const Grammar>(
          parse_grammar("root ::= [" + digits(low) + "-" + digits(high) + "]"));
      const auto outside = std::make_shared<const Grammar>(
          parse_grammar("root ::= \"x\" | [^" + digits(low) + "-" + digits(high) + "]"));
      const GrammarMatcher fresh_inside(inside), fresh_outside(outside);
      for (const char32_t one : edges) {
        std::string text;
        append_utf8(text, one);
        GrammarMatcher in = fresh_inside, out = fresh_outside;
        EXPECT_EQ(in.advance(text), one >= low && one <= high) << uint32_t(low) << " " << uint32_t(high) << " " << uint32_t(one);
        EXPECT_EQ(out.advance(text), one < low || one > high) << uint32_t(low) << " " << uint32_t(high) << " " << uint32_t(one);
      }
    }
  for (const char* const broken : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(matches("root ::= .", broken));
}

TEST(Grammar, RefusesWhatItDoesNotUnderstand) {
  std::string deep = "root ::= ";
  for (int i = 0; i < 60'000; ++i) deep += '(';
  const std::string bad[] = {"",
                             "root",
                             "root ::= ",
                             "root := \"a\"",
                             "a ::= \"a\"",
                             "root ::= missing",
                             "root ::= \"a",
                             "root ::= [a",
                             "root ::= [b-a]",
                             "root ::= []",
                             "root ::= \"a\"{2,1}",
                             "root ::= \"a\"{1000000000}",
                             "root ::= \"a\"{-1}",
                             "root ::= (\"a\"",
                             "root ::= \"a\")",
                             "root ::= \"\\q\"",
                             "root ::= \"\\ud800\"",
                             "root ::= \"a\"\nroot ::= \"b\"",
                             "root ::= root \"a\" | \"b\"",
                             "root ::= x? root \"a\"\nx ::= \"b\"",
                             "root ::= (\"\")* \"a\"",
                             "root ::= \"a\" | ",
                             "root ::= \"\xff\"",
                             deep};
  for (const std::string& grammar : bad)
    EXPECT_THROW(parse_grammar(grammar), Error) << grammar.substr(0, 60);
}

TEST(TokenConstraint, AllowsTheTokensThatCanFollow) {
  const ByteTokenizer tokenizer;
  const auto vocabulary = std::make_shared<const SortedVocabulary>(tokenizer, 256);
  TokenConstraint constraint(
      std::make_shared<const Grammar>(parse_grammar("root ::= \"a\" [0-9] (\"b\" | \"c\")")), vocabulary);
  const auto allowed = [&] {
    std::vector<float> logits(256, 0);
    EXPECT_TRUE(constraint.mask(logits));
    std::string text;
    for (size_t i = 0; i < 256; ++i)
      if (std::isfinite(logits[i])) text += char(i);
    return text;
  };
  EXPECT_EQ(allowed(), "a");
  constraint.take('a');
  EXPECT_EQ(allowed(), "0123456789");
  TokenConstraint copy = constraint;
  constraint.take('7');
  EXPECT_EQ(allowed(), "bc");
  EXPECT_FALSE(constraint.is_over());
  constraint.take('c');
  EXPECT_TRUE(constraint.is_over());
  EXPECT_FALSE(copy.is_over());
}

}  // namespace
}  // namespace deltasane
