#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <sstream>

#include "base/io/file.h"
#include "base/random.h"
#include "support/process.h"
#include "text/unicode/character_class.h"
#include "text/unicode/class_ranges.h"
#include "text/unicode/nfc.h"
#include "text/utf8.h"

namespace deltasane::unicode {
namespace {

std::string utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

Character character(char32_t c) { return first_character(utf8(std::u32string_view(&c, 1))); }

TEST(CharacterClass, KnowsSomeCharacters) {
  using enum CharacterClass;
  const std::map<char32_t, CharacterClass> known{
      {'a', lower},     {'Z', upper},      {'7', number},    {' ', space},     {'\n', space},
      {0x85, space},    {0xA0, space},     {0x3000, space},  {0x200B, other},  {0xFEFF, other},
      {0x180E, other},  {'!', other},      {0, other},       {0xAA, letter},   {0x17F, lower},
      {0x1C5, upper},   {0x2160, number},  {0x301, mark},    {0x4E00, letter}, {0x5D0, letter},
      {0xBD, number},   {0x10FFFF, other}, {0x100, upper},   {0x101, lower},   {0x139, upper},
      {0x13A, lower},   {0x1F600, other},  {0xE0100, mark},  {0x10400, upper}, {0x378, other}};
  for (const auto& [c, kind] : known) EXPECT_EQ(character(c).kind, kind) << uint32_t(c);
  EXPECT_TRUE(character(0x4E00).han);
  EXPECT_TRUE(character(0x3007).han);  // the number zero
  EXPECT_TRUE(character(0x2E80).han);  // a radical, and no letter
  EXPECT_FALSE(character(0x3042).han);
}

TEST(CharacterClass, OtherBytesAreCharactersOfOneByte) {
  for (const std::string text : {"\xFF", "\x80", "\xE4\xB8", "\xC0\x80", "\xED\xA0\x80"}) {
    const Character c = first_character(text);
    EXPECT_EQ(c.length, 1);
    EXPECT_EQ(c.kind, CharacterClass::other);
    EXPECT_EQ(c.code_point, Character::no_code_point);
  }
}

const fs::path database = "/usr/share/unicode";

bool other_version() {
  return !fs::exists(database / "PropList.txt") ||
         read_file(database / "PropList.txt").find(cat("PropList-", version, ".txt")) ==
             std::string::npos;
}

// "0041..005A    ; Lu" and the like.
template <class Take>
void each_range(const fs::path& file, const Take& take) {
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const size_t semicolon = line.find(';');
    if (line.empty() || line[0] == '#' || semicolon == line.npos) continue;
    std::istringstream value(line.substr(semicolon + 1));
    std::string name;
    value >> name;
    uint32_t first = 0, last = 0;
    const char* const end = line.data() + semicolon;
    const char* const dots = std::from_chars(line.data(), end, first, 16).ptr;
    last = first;
    if (*dots == '.') std::from_chars(dots + 2, end, last, 16);
    for (uint32_t c = first; c <= last; ++c) take(c, name);
  }
}

TEST(CharacterClass, AgreesWithTheDerivedFiles) {
  if (other_version())
    GTEST_SKIP() << "the Unicode files of version " << version << " are not installed";
  std::vector<CharacterClass> expected(0x110000);
  std::vector<bool> han(0x110000);
  each_range(database / "extracted" / "DerivedGeneralCategory.txt",
             [&](uint32_t c, const std::string& category) {
               using enum CharacterClass;
               if (category[0] == 'N') expected[c] = number;
               if (category[0] == 'M') expected[c] = mark;
               if (category[0] == 'L') expected[c] = letter;
               if (category == "Lu" || category == "Lt") expected[c] = upper;
               if (category == "Ll") expected[c] = lower;
             });
  each_range(database / "PropList.txt", [&](uint32_t c, const std::string& name) {
    if (name == "White_Space") expected[c] = CharacterClass::space;
  });
  each_range(database / "Scripts.txt", [&](uint32_t c, const std::string& name) {
    if (name == "Han") han[c] = true;
  });
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (!unicode_scalar(c)) continue;
    ASSERT_EQ(character(c).kind, expected[c]) << uint32_t(c);
    ASSERT_EQ(character(c).han, han[c]) << uint32_t(c);
  }
}

TEST(Nfc, ComposesAndReorders) {
  EXPECT_EQ(nfc(""), "");
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc(utf8(U"e\u0301")), utf8(U"\u00E9"));
  EXPECT_EQ(nfc(utf8(U"q\u0307\u0323")), utf8(U"q\u0323\u0307"));
  EXPECT_EQ(nfc(utf8(U"a\u0328\u0301 \u0301")), utf8(U"\u0105\u0301 \u0301"));
  EXPECT_EQ(nfc(utf8(U"\u212B\u2126")), utf8(U"\u00C5\u03A9"));          // singletons
  EXPECT_EQ(nfc(utf8(U"\u0344")), utf8(U"\u0308\u0301"));                // only splits
  EXPECT_EQ(nfc(utf8(U"\u0958")), utf8(U"\u0915\u093C"));                // excluded from composition
  EXPECT_EQ(nfc(utf8(U"\u1112\u1161\u11AB")), utf8(U"\uD55C"));          // Hangul
  EXPECT_EQ(nfc(utf8(U"\uD558\u11AB")), utf8(U"\uD55C"));
  EXPECT_EQ(nfc(utf8(U"\uD55C\u11AB")), utf8(U"\uD55C\u11AB"));          // has a trail already
  EXPECT_EQ(nfc("e\xFF\xCC\x81"), "e\xFF\xCC\x81");  // not across bytes that are no UTF-8
  EXPECT_EQ(nfc("\xCC"), "\xCC");
}

TEST(Nfc, ManyMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 300'000; ++i) text += i % 2 ? utf8(U"\u0301") : utf8(U"\u0323");
  const std::string once = nfc(text);
  EXPECT_EQ(nfc(once), once);
  EXPECT_EQ(once.substr(0, 3), utf8(U"\u1EA1"));
}

// Columns: source; NFC; NFD; NFKC; NFKD. NFC of the first three is the second, of the others the
// fourth.
TEST(Nfc, PassesTheConformanceTest) {
  const fs::path packed = database / "NormalizationTest.txt.bz2";
  if (other_version() || !fs::exists(packed))
    GTEST_SKIP() << "the Unicode files of version " << version << " are not installed";
  const test::Outcome unpacked = test::run({"bzip2", "-dc", packed.string()});
  if (unpacked.exit_code != 0) GTEST_SKIP() << "bzip2 is not installed";
  std::istringstream lines(unpacked.output);
  int tests = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '@') continue;
    std::vector<std::string> columns(5);
    std::istringstream fields(line);
    for (std::string& column : columns) {
      std::string field;
      std::getline(fields, field, ';');
      std::istringstream codes(field);
      for (uint32_t code = 0; codes >> std::hex >> code;) append_utf8(column, code);
    }
    for (const size_t i : {0, 1, 2}) ASSERT_EQ(nfc(columns[i]), columns[1]) << line;
    for (const size_t i : {3, 4}) ASSERT_EQ(nfc(columns[i]), columns[3]) << line;
    ++tests;
  }
  EXPECT_GT(tests, 18'000);
}

}  // namespace
}  // namespace deltasane::unicode
