#include "text/utf8.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/cat.h"
#include "text/utf8_stream.h"

namespace deltasane {
namespace {

constexpr std::string_view mark = "\xEF\xBF\xBD";  // U+FFFD

std::string whole_text(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.feed(bytes);
  return text += stream.finish();
}

std::string byte_by_byte(std::string_view bytes) {
  Utf8Stream stream;
  std::string text;
  for (const char c : bytes) {
    text += stream.feed({&c, 1});
    EXPECT_TRUE(valid_utf8(text));
  }
  return text += stream.finish();
}

std::string with_marks(std::string_view pattern) {
  std::string text;
  for (const char c : pattern) text += c == '?' ? std::string(mark) : std::string(1, c);
  return text;
}

TEST(Utf8, EveryScalarValueIsValidAndNothingElseOfItsLength) {
  for (char32_t code_point = 0; code_point < 0x120000; code_point += code_point < 0x3000 ? 1 : 7) {
    if (!unicode_scalar(code_point)) continue;
    std::string text;
    append_utf8(text, code_point);
    ASSERT_TRUE(valid_utf8(text)) << uint32_t(code_point);
    for (size_t size = 1; size < text.size(); ++size) {
      const Utf8Step step = utf8_step(std::string_view(text).substr(0, size));
      ASSERT_EQ(step.kind, Utf8Step::Kind::partial);
      ASSERT_EQ(step.length, size);
    }
  }
}

TEST(Utf8, CountsTheValidTexts) {
  int one = 0, two = 0, three = 0;
  for (int a = 0; a < 256; ++a) {
    one += valid_utf8(std::string{char(a)});
    for (int b = 0; b < 256; ++b) {
      two += utf8_step(std::string{char(a), char(b)}).length == 2 &&
             valid_utf8(std::string{char(a), char(b)});
      if (a >= 0xE0 && a < 0xF0)
        for (int c = 0; c < 256; ++c) three += valid_utf8(std::string{char(a), char(b), char(c)});
    }
  }
  EXPECT_EQ(one, 0x80);
  EXPECT_EQ(two, 0x800 - 0x80);
  EXPECT_EQ(three, 0x10000 - 0x800 - 0x800);  // without the surrogates
}

TEST(Utf8, RejectsWhatIsNotUtf8) {
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xFF"})
    EXPECT_FALSE(valid_utf8(text)) << text;
  EXPECT_TRUE(valid_utf8(""));
}

// The examples of the Unicode standard, section 3.9, "U+FFFD substitution of maximal subparts".
TEST(Utf8Stream, ReplacesEachLongestInvalidPart) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "????????A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "????????A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "?????A??B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "????A"},
      {"abc", "abc"},
      {"\xE2\x82", "?"},
      {"\xE2\x82"
       "A",
       "?A"},
      {"\xF0\x9F\x98", "?"},
      {"\xE4\xBD\xA0\xE5\xA5", "\xE4\xBD\xA0?"}};
  for (const auto& [bytes, pattern] : cases) {
    EXPECT_EQ(whole_text(bytes), with_marks(pattern));
    EXPECT_EQ(byte_by_byte(bytes), with_marks(pattern));
  }
}

TEST(Utf8Stream, EmitsACharacterWhenItIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("a\xF0\x9F"), "a");
  EXPECT_TRUE(stream.inside_character());
  EXPECT_EQ(stream.feed("\x98"), "");
  EXPECT_EQ(stream.feed("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_FALSE(stream.inside_character());
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, ReplacesAsSoonAsNothingElseIsPossible) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xE2"), "");
  EXPECT_EQ(stream.feed("\x28"), cat(mark, "("));
  EXPECT_EQ(stream.feed("\xFF"), mark);
  EXPECT_EQ(stream.feed("\xE2\x82"), "");
  EXPECT_EQ(stream.finish(), mark);
  EXPECT_EQ(stream.feed("\xAC"), mark);  // a new stream after finish()
}

}  // namespace
}  // namespace deltasane
