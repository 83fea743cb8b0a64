// The head of a request, checked byte by byte before a lenient parser sees it. Whatever two programs
// on the way could understand differently is refused: that is how requests are smuggled.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace deltasane::serve {

// `head`: from the first byte of the request line up to and with the empty line. Throws Refusal.
//
// - Lines end in CR LF, and there is no other CR or LF; no control character but a tab in a value.
// - No line continues the one before (obs-fold); no space before a colon; names are tokens.
// - HTTP/1.0 or HTTP/1.1. With 1.1 exactly one Host, which must be a host and a port.
// - At most one Content-Length, of digits only; never with Transfer-Encoding, which is "chunked".
// - The target is a path: not absolute, not '*'.
void check_head(std::string_view head, const HttpLimits& limits);

struct Target {
  std::string path, query;
};

// Splits a target, and decodes its path. Refused: an escape that is none, one of a control
// character, a zero byte or a slash, bytes that are not UTF-8, and "." or ".." as a part.
Target read_target(std::string_view target);

// The fields after the request line of a head that was checked; names in lower case.
Headers fields_of(std::string_view lines);
std::string lower_case(std::string_view text);  // ASCII

// "name:port", "name", "[::1]:port" or "[::1]" as its name, in lower case; empty: it is none.
std::string host_name(std::string_view host);

}  // namespace deltasane::serve
