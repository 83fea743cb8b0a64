#include "serve/http/head_check.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "text/utf8.h"

namespace deltasane::serve {
namespace {

[[noreturn]] void refuse(const std::string& message, int status = 400,
                         const char* code = "bad_request_head") {
  throw Refusal(status, code, message);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// RFC 9110: what names of methods and headers are made of.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_digit(c) || is_letter(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_http_1_1(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last || line.find(' ', first + 1) != last)
    refuse("request line: expected a method, a target and a version with one space between them");
  if (!is_token(line.substr(0, first))) refuse("request line: expected a method of letters");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!target.starts_with('/'))
    refuse(cat("request target: expected a path that begins with '/', found ", printable(target)));
  for (const char c : target)
    if (c <= ' ' || c >= 127) refuse("request target: expected printable ASCII, found other bytes");
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    refuse(cat("request line: expected HTTP/1.1 or HTTP/1.0, found ", printable(version)), 505,
           "http_version");
  return version == "HTTP/1.1";
}

struct Counts {
  int hosts = 0, lengths = 0, encodings = 0;
};

void check_field(std::string_view line, Counts& counts) {
  if (line.front() == ' ' || line.front() == '\t')
    refuse("request head: expected one header a line, found a line that continues another");
  const size_t colon = line.find(':');
  if (colon == line.npos) refuse("request head: expected 'name: value', found no colon");
  if (!is_token(line.substr(0, colon)))
    refuse(cat("request head: expected the name of a header before a colon, found ",
               printable(line.substr(0, colon))));
  const std::string name = lower_case(line.substr(0, colon));
  const std::string_view value = without_blanks(line.substr(colon + 1));
  for (const char c : value)
    if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 127)
      refuse(cat("header ", name, ": expected no control characters, found one"));
  if (name == "host") {
    ++counts.hosts;
    if (host_name(value).empty())
      refuse(cat("header host: expected a host and a port, found ", printable(value)));
  } else if (name == "content-length") {
    ++counts.lengths;
    if (value.empty() || value.size() > 18 || !std::ranges::all_of(value, is_digit))
      refuse(cat("header content-length: expected a number of bytes, found ", printable(value)));
  } else if (name == "transfer-encoding") {
    ++counts.encodings;
    if (lower_case(value) != "chunked")
      refuse(cat("header transfer-encoding: expected chunked, found ", printable(value)), 501,
             "transfer_encoding");
  }
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

Headers fields_of(std::string_view lines) {
  Headers fields;
  while (!lines.starts_with("\r\n")) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(line.size() + 2);
    const size_t colon = line.find(':');
    fields.emplace_back(lower_case(line.substr(0, colon)), without_blanks(line.substr(colon + 1)));
  }
  return fields;
}

void check_head(std::string_view head, const HttpLimits& limits) {
  require(head.ends_with("\r\n\r\n"), "a head ends with an empty line");
  size_t lines = 0;
  bool later_version = false;
  Counts counts;
  for (std::string_view rest = head;;) {
    const size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    if (line.find_first_of("\r\n") != line.npos || line.find('\0') != line.npos)
      refuse("request head: expected lines that end in CR LF, found a single CR, LF or zero byte");
    rest.remove_prefix(end + 2);
    if (line.empty()) {
      if (lines == 0) refuse("request line: expected a method and a target, found an empty line");
      break;
    }
    if (++lines > limits.head_lines)
      refuse(cat("request head: expected at most ", limits.head_lines, " lines, found more"), 431,
             "head_too_large");
    if (lines == 1)
      later_version = is_http_1_1(line);
    else
      check_field(line, counts);
  }
  if (counts.hosts > 1 || (later_version && counts.hosts == 0))
    refuse(counts.hosts == 0 ? "the Host header is missing"
                             : cat("header host: expected it once, found it ", counts.hosts, " times"));
  if (counts.lengths > 1 || counts.encodings > 1 || counts.lengths + counts.encodings > 1)
    refuse("request head: expected one of content-length and transfer-encoding, once, found more");
  if (counts.encodings > 0 && !later_version)
    refuse("header transfer-encoding: expected HTTP/1.1, found HTTP/1.0");
}

Target read_target(std::string_view target) {
  Target found;
  const size_t mark = target.find('?');
  if (mark != target.npos) found.query = target.substr(mark + 1);
  const std::string_view path = target.substr(0, mark);
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '#' || path[i] == '\\')
      refuse(cat("request target: expected a path, found ", printable(path)));
    if (path[i] != '%') {
      found.path += path[i];
      continue;
    }
    unsigned byte = 0;
    const char* const digits = path.data() + i + 1;
    if (i + 2 >= path.size() ||
        std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2 || byte < ' ' ||
        byte == 127 || byte == '/' || byte == '\\')
      refuse(cat("request target: expected escapes of printable characters, found ",
                 printable(path)));
    found.path += char(byte);
    i += 2;
  }
  if (!valid_utf8(found.path)) refuse("request target: expected UTF-8, found other bytes");
  for (std::string_view rest = found.path; !rest.empty();) {
    rest.remove_prefix(1);  // the slash
    const size_t end = std::min(rest.find('/'), rest.size());
    if (rest.substr(0, end) == "." || rest.substr(0, end) == "..")
      refuse(cat("request target: expected a path without . and .., found ", printable(path)));
    rest.remove_prefix(end);
  }
  return found;
}

std::string host_name(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const size_t end = bracketed ? host.find(']') : host.find(':');
  if (bracketed && end == host.npos) return {};
  const std::string_view name = bracketed ? host.substr(1, end - 1) : host.substr(0, end);
  std::string_view rest =
      end == host.npos ? std::string_view() : host.substr(bracketed ? end + 1 : end);
  if (!rest.empty()) {
    if (rest.front() != ':') return {};
    rest.remove_prefix(1);
    if (rest.size() > 5 || !std::ranges::all_of(rest, is_digit)) return {};
  }
  const std::string_view more = bracketed ? ":.%" : ".-_";
  for (const char c : name)
    if (!is_digit(c) && !is_letter(c) && more.find(c) == more.npos) return {};
  return lower_case(name);
}

}  // namespace deltasane::serve
