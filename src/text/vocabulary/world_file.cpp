#include "text/vocabulary/world_file.h"

#include <utility>

#include "text/vocabulary/cursor.h"
#include "text/vocabulary/python_literal.h"

namespace deltasane {
namespace {

constexpr size_t max_file_bytes = size_t{64} << 20;

// Removes the first line from the text and returns it without its line end.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string parse_line(Cursor cursor) {
  const InputLocation location = cursor.location();
  const int64_t id = cursor.decimal(Vocabulary::max_tokens, "an id");
  if (id < location.number)
    location.reject("expected id ", location.number, ", found ", id,
                    id == 0 ? ", which is the end of document" : ", which an earlier line has");
  if (id > location.number)
    location.reject("expected id ", location.number, ", found ", id, ", which leaves a gap");
  cursor.expect(' ', "a space after the id");
  std::string token = read_python_literal(cursor);
  if (token.empty()) location.reject("expected a token of at least one byte, found an empty one");
  cursor.expect(' ', "a space after the literal");
  const int64_t length = cursor.decimal(Vocabulary::max_token_bytes, "a length in bytes");
  if (!cursor.done()) cursor.reject("the end of the line");
  if (length != int64_t(token.size()))
    location.reject("expected a literal of ", length, " bytes, found ", token.size(), " in ",
                    printable(token));
  return token;
}

}  // namespace

Vocabulary parse_world_file(std::string_view bytes, std::string_view name) {
  if (bytes.size() > max_file_bytes)
    fail(Fault::file, name, ": expected at most ", max_file_bytes, " bytes, found ", bytes.size());
  std::vector<std::string> tokens{""};
  while (!bytes.empty()) {
    const InputLocation location{name, "line", int64_t(tokens.size())};
    tokens.push_back(parse_line(Cursor(take_line(bytes), location)));
  }
  return Vocabulary(std::move(tokens), name, "line");
}

std::string world_file_of(const Tokenizer& tokenizer) {
  std::string lines;
  for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes_of(id);
    lines += cat(id, " ", python_literal_of(bytes), " ", bytes.size(), "\n");
  }
  return lines;
}

}  // namespace deltasane
