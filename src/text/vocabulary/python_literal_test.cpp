#include "text/vocabulary/python_literal.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace deltasane {
namespace {

std::string read(std::string_view text) {
  Cursor cursor(text, {"v", "line", 3});
  const std::string bytes = read_python_literal(cursor);
  EXPECT_TRUE(cursor.done()) << text;
  return bytes;
}

TEST(PythonLiteral, ReadsWhatReprWrites) {
  EXPECT_EQ(read(R"('')"), "");
  EXPECT_EQ(read(R"('a b')"), "a b");
  EXPECT_EQ(read(R"("it's")"), "it's");
  EXPECT_EQ(read(R"('say "a"')"), "say \"a\"");
  EXPECT_EQ(read(R"('\'"\\\n\r\t')"), "'\"\\\n\r\t");
  EXPECT_EQ(read("'\xE4\xBD\xA0'"), "\xE4\xBD\xA0");
  EXPECT_EQ(read(R"('\u2028')"), "\xE2\x80\xA8");
  EXPECT_EQ(read(R"('\U0001f600')"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(read(R"(b'a\xff\n"')"), "a\xFF\n\"");
  EXPECT_EQ(read(R"(b"'")"), "'");
}

TEST(PythonLiteral, TellsCodePointsFromBytes) {
  EXPECT_EQ(read(R"('\x80')"), "\xC2\x80");
  EXPECT_EQ(read(R"(b'\x80')"), "\x80");
  EXPECT_EQ(read(R"('\x7f')"), "\x7F");
  EXPECT_EQ(read(R"('\x00')"), std::string(1, '\0'));
}

TEST(PythonLiteral, StopsAfterTheClosingQuote) {
  Cursor cursor("'a' 1", {"v", "line", 3});
  EXPECT_EQ(read_python_literal(cursor), "a");
  EXPECT_EQ(cursor.rest(), " 1");
}

TEST(PythonLiteral, RejectsWhatReprNeverWrites) {
  EXPECT_FAULT(read(""), Fault::file, "v: line 3: column 1: expected a literal in quotes");
  EXPECT_FAULT(read("b"), Fault::file, "column 2: expected a literal in quotes");
  EXPECT_FAULT(read("u'a'"), Fault::file, "expected a literal in quotes");
  EXPECT_FAULT(read("'a"), Fault::file, "column 3: expected a closing quote, found the end");
  EXPECT_FAULT(read("'a\\"), Fault::file, "expected an escape, found the end");
  EXPECT_FAULT(read("'a\""), Fault::file, "expected a closing quote");
  EXPECT_FAULT(read(R"('\a')"), Fault::file, "column 2: expected an escape that repr() writes");
  EXPECT_FAULT(read(R"('\101')"), Fault::file, "expected an escape that repr() writes");
  EXPECT_FAULT(read(R"('\N{DOT}')"), Fault::file, "expected an escape that repr() writes");
  EXPECT_FAULT(read(R"(b'\u0041')"), Fault::file, "expected an escape that repr() writes");
  EXPECT_FAULT(read(R"('\x4')"), Fault::file, "expected 2 hexadecimal digits");
  EXPECT_FAULT(read(R"('\x-1')"), Fault::file, "expected 2 hexadecimal digits");
  EXPECT_FAULT(read(R"('\u12')"), Fault::file, "expected 4 hexadecimal digits");
  EXPECT_FAULT(read(R"('\ud800')"), Fault::file, "not a surrogate");
  EXPECT_FAULT(read(R"('\U00110000')"), Fault::file, "not a surrogate");
  EXPECT_FAULT(read("'\t'"), Fault::file, "in place of a control character, found '\\x09\\x27'");
  EXPECT_FAULT(read("'\xFF'"), Fault::file, "expected UTF-8");
  EXPECT_FAULT(read("'\xE4\xBD"), Fault::file, "expected UTF-8");
  EXPECT_FAULT(read("b'\xE4\xBD\xA0'"), Fault::file, "expected ASCII in a literal of bytes");
}

}  // namespace
}  // namespace deltasane
