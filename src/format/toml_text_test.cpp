#include "format/toml_text.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace deltasane {
namespace {

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(TomlText, RefusesWhatIsNestedTooDeep) {
  for (const int times : {40, 100'000})
    for (const std::string& text :
         {"a = " + repeated("[", times), "a = " + repeated("{a=", times),
          repeated("a.", times) + "a = 1", "[" + repeated("a . ", times) + "a]",
          repeated("\"a\".", times) + "a = 1", "s = 'x' # [\n" + repeated("a.", times) + "a = 1"})
      EXPECT_FAULT(parse_toml(text, "file"), Fault::file, "nested at most 32 deep");
}

TEST(TomlText, BracketsAndDotsInStringsAndCommentsAreText) {
  const std::string many = repeated("[.{", 100);
  const toml::table table =
      parse_toml("# " + many + "\na = \"" + many + "\\\"" + many + "\"\nb = '" + many +
                     "'\nc = \"\"\"\n" + many + "\n\"\"\"\nd = [" + repeated("0.5, ", 200) + "]",
                 "file");
  EXPECT_EQ(table["b"].value<std::string>(), many);
  EXPECT_EQ(table["d"].as_array()->size(), 200u);
}

TEST(TomlText, RefusesLettersOfOtherAlphabetsOutsideOfStringsAndComments) {
  for (const std::string text : {"\nп = 1", "\na = п", "\na = 1 п", "\na\u00A0= 1", "\n[п]",
                                 "\na = [1,\u3042]", "\na = \"x\" п"})
    EXPECT_FAULT(parse_toml(text, "file"), Fault::file,
                 "file:2: expected ASCII outside of strings and comments");
}

TEST(TomlText, RefusesLettersOfOtherAlphabetsAfterABackslash) {
  for (const std::string text :
       {"\na = \"\\п\"", "\na = \"\"\"\\п\"\"\"", "\na = \"\"\"\\ п\"\"\""})
    EXPECT_FAULT(parse_toml(text, "file"), Fault::file,
                 "file:2: expected an ASCII character after");
  EXPECT_FAULT(parse_toml("a = \"\"\"\\\n п\"\"\"", "file"), Fault::file,
               "file:2: expected an ASCII character after");
}

TEST(TomlText, ReadsLettersOfOtherAlphabetsInStringsAndComments) {
  const toml::table table = parse_toml(
      "\uFEFF# п\n\"п\" = 'é' # it's é\nb = \"\"\"\"é\"\"\"\"\" # \"é\nc = ''''é''''' # 'é\nd = "
      "\"\"\"a\\\n b é\"\"\"",
      "file");
  EXPECT_EQ(table["п"].value<std::string>(), "é");
  EXPECT_EQ(table["b"].value<std::string>(), "\"é\"\"");
  EXPECT_EQ(table["c"].value<std::string>(), "'é''");
  EXPECT_EQ(table["d"].value<std::string>(), "ab é");
}

// The library reads a wrong value on to its end: what looks like a string there is none.
TEST(TomlText, RefusesStringsWithinValues) {
  for (const std::string text : {"\na = 1'п'", "\na =-'п", "\na = 1979-05-27'п", "\na = 1.'п'",
                                 "\na = [1,\t2'п']", "\na = [1[\"\"\"п", "\na = {b = 1.'п'}",
                                 "\na = {b = 1'п'}", "\na = {b = {c = 1}, d = 1\"п\"}",
                                 "\na = 3a='п'", "\na = {b = 3='п'}", "\na = [{b = 1}, 3='п']"})
    EXPECT_FAULT(parse_toml(text, "file"), Fault::file,
                 "file:2: expected a comma or the end of the line after a value");
  for (const std::string& text :
       {std::string("\na = +*'п'"), std::string("\na = 1\0[\"п", 10), std::string("\na = \v'п'")})
    EXPECT_FAULT(parse_toml(text, "file"), Fault::file, "file:2: expected keys, values and");
}

TEST(TomlText, RefusesStringsAfterValuesAndBlanks) {
  for (const char* text : {"a = 1 'b'", "a = 1 \t \"b\"", "a = 1979-05-27 0 '''b'''",
                           "a = [1 [2]]", "a = 1 {}", "a 'b' = 1"}) {
    SCOPED_TRACE(text);
    EXPECT_FAULT(parse_toml(text, "file"), Fault::file,
                 "file:1: expected a comma or the end of the line after a value");
  }
  const toml::table read = parse_toml(
      "a . 'b' . c = 1979-05-27 07:32:00 # 'd'\ne = [ 1 , 'f' , \"g\" ]\n"
      "h = { i = 1 , 'j' = 2 }\n",
      "file");
  EXPECT_EQ(read["e"].as_array()->size(), 3u);
  EXPECT_EQ(read["h"]["j"].value<int64_t>(), 2);
  EXPECT_TRUE(read["a"]["b"]["c"].is_date_time());
}

TEST(TomlText, ReadsQuotedKeysAfterDots) {
  const toml::table table = parse_toml(
      "a.'п' = [1, 'é', [2.5, \"é\"]] # é\n[b.\"é\".c]\nd = {e.'п' = 1, f.\"é\" = {g = 'é'}, h.'é' "
      "= 2}\n"
      "i = [{j.'п' = 3}, {k.'é' = 4}]\nl = [ # é\n  'é'\n]\nm.'é' = 1979-05-27 07:32:00",
      "file");
  EXPECT_EQ(table["a"]["п"][2][1].value<std::string>(), "é");
  EXPECT_EQ(table["b"]["é"]["c"]["d"]["h"]["é"].value<int>(), 2);
  EXPECT_EQ(table["b"]["é"]["c"]["i"][1]["k"]["é"].value<int>(), 4);
  EXPECT_TRUE(table["b"]["é"]["c"]["m"]["é"].is_date_time());
}

TEST(TomlText, ReadsKeysWithoutWhiteSpace) {
  const toml::table table =
      parse_toml("[a]\nb=1\nc={d=[1,2],e={f=3},g=4}\nh=[{i=5},{j=6}]\nk.l=7", "file");
  EXPECT_EQ(table["a"]["c"]["g"].value<int>(), 4);
  EXPECT_EQ(table["a"]["h"][1]["j"].value<int>(), 6);
  EXPECT_EQ(table["a"]["k"]["l"].value<int>(), 7);
}

TEST(TomlText, RefusesZeroCharacters) {
  EXPECT_FAULT(parse_toml("a = \"ru\\u0000n\"", "file"), Fault::file, "zero characters");
  EXPECT_FAULT(parse_toml("a = \"ru\\U00000000n\"", "file"), Fault::file, "zero characters");
}

}  // namespace
}  // namespace deltasane
