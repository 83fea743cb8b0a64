#include "text/vocabulary/python_literal.h"

#include "text/utf8.h"

namespace deltasane {
namespace {

enum class Kind { text, bytes };

void read_code_point(Cursor& cursor, int digits, std::string& out) {
  const Cursor before = cursor;
  const char32_t code_point = cursor.hexadecimal(digits);
  if (!unicode_scalar(code_point)) before.reject("a code point that is not a surrogate");
  append_utf8(out, code_point);
}

void read_escape(Cursor& cursor, Kind kind, std::string& out) {
  const Cursor before = cursor;
  cursor.expect('\\', "an escape");
  const char name = cursor.take("an escape");
  if (name == '\\' || name == '\'' || name == '"') return void(out += name);
  if (name == 'n') return void(out += '\n');
  if (name == 'r') return void(out += '\r');
  if (name == 't') return void(out += '\t');
  if (name == 'x' && kind == Kind::bytes) return void(out += char(cursor.hexadecimal(2)));
  if (name == 'x') return read_code_point(cursor, 2, out);
  if (name == 'u' && kind == Kind::text) return read_code_point(cursor, 4, out);
  if (name == 'U' && kind == Kind::text) return read_code_point(cursor, 8, out);
  before.reject("an escape that repr() writes");
}

void read_character(Cursor& cursor, Kind kind, std::string& out) {
  const Utf8Step step = utf8_step(cursor.rest());
  const auto first = uint8_t(cursor.rest()[0]);
  if (first < 0x20 || first == 0x7f) cursor.reject("an escape in place of a control character");
  if (kind == Kind::bytes && first >= 0x80) cursor.reject("ASCII in a literal of bytes");
  if (step.kind != Utf8Step::Kind::complete) cursor.reject("UTF-8");
  out += cursor.take_bytes(step.length);
}

}  // namespace

std::string read_python_literal(Cursor& cursor) {
  const Kind kind = cursor.at('b') ? Kind::bytes : Kind::text;
  if (kind == Kind::bytes) cursor.expect('b', "b");
  const char quote = cursor.at('"') ? '"' : '\'';
  cursor.expect(quote, "a literal in quotes");
  std::string out;
  while (!cursor.at(quote)) {
    if (cursor.done()) cursor.reject("a closing quote");
    if (cursor.at('\\'))
      read_escape(cursor, kind, out);
    else
      read_character(cursor, kind, out);
  }
  cursor.expect(quote, "a closing quote");
  return out;
}

}  // namespace deltasane
