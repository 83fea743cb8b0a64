#include "text/world_file.h"

#include <utility>

#include "text/cursor.h"
#include "text/python_literal.h"

namespace deltasane {
namespace {

constexpr size_t most_file_bytes = size_t{64} << 20;

// Takes the first line, without its end, off the text.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string parse_line(Cursor cursor) {
  const Place place = cursor.place();
  const int64_t id = cursor.decimal(Vocabulary::most_tokens, "an id");
  if (id < place.number)
    place.refuse("expected id ", place.number, ", found ", id,
                 id == 0 ? ", which is the end of document" : ", which an earlier line has");
  if (id > place.number)
    place.refuse("expected id ", place.number, ", found ", id, ", which leaves a hole");
  cursor.expect(' ', "a space after the id");
  std::string token = read_python_literal(cursor);
  if (token.empty()) place.refuse("expected a token of at least one byte, found an empty one");
  cursor.expect(' ', "a space after the literal");
  const int64_t length = cursor.decimal(Vocabulary::longest_token, "a length in bytes");
  if (!cursor.done()) cursor.refuse("the end of the line");
  if (length != int64_t(token.size()))
    place.refuse("expected a literal of ", length, " bytes, found ", token.size(), " in ",
                 printable(token));
  return token;
}

}  // namespace

Vocabulary parse_world_file(std::string_view bytes, std::string_view name) {
  if (bytes.size() > most_file_bytes)
    fail(Fault::file, name, ": expected at most ", most_file_bytes, " bytes, found ", bytes.size());
  std::vector<std::string> tokens{""};
  while (!bytes.empty()) {
    const Place place{name, "line", int64_t(tokens.size())};
    tokens.push_back(parse_line(Cursor(take_line(bytes), place)));
  }
  return Vocabulary(std::move(tokens), name, "line");
}

}  // namespace deltasane
