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

std::string python_literal_of(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  const bool text = valid_utf8(bytes);
  std::string out = text ? "'" : "b'";
  const auto escape = [&](unsigned char code) {
    out += cat("\\x", digits[code >> 4], digits[code & 15]);
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == '\'' || c == '\\')
      out += cat('\\', char(c));
    else if (c == '\n' || c == '\r' || c == '\t')
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !text))
      escape(c);
    else if (c == 0xc2 && static_cast<unsigned char>(bytes[i + 1]) < 0xa0)
      escape(static_cast<unsigned char>(bytes[++i]));  // U+0080 to U+009F, controls
    else if (bytes.substr(i).starts_with("\xe2\x80\xa8") || bytes.substr(i).starts_with("\xe2\x80\xa9"))
      out += bytes[i + 2] == '\xa8' ? "\\u2028" : "\\u2029", i += 2;  // end a line to some readers
    else
      out += char(c);
  }
  return out + "'";
}

}  // namespace deltasane
