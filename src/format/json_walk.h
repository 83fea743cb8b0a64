// A streaming (SAX) reader for untrusted JSON.
//
// Rejected, with the byte offset: text that is not JSON or not UTF-8, a zero byte, nesting deeper
// than the limit, a string longer than the limit, an object with more keys than the limit, and a
// repeated key in an object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"

namespace deltasane {

struct JsonValue {
  enum class Kind { object, array, end, text, natural, negative, real, truth, nothing };
  Kind kind;
  std::string_view text;  // kind text
  uint64_t natural = 0;   // kind natural; 0 or 1 for kind truth
  int64_t negative = 0;   // kind negative
  double real = 0;        // kind real
};

struct JsonLimits {
  size_t depth = 16;
  size_t text = size_t{16} << 20;  // bytes
  size_t keys = 200'000;           // of one object
  size_t file = size_t{64} << 20;  // bytes, for walk_json_file
};

// `path` holds the keys that lead to the value; elements of an array have the array's path. An
// object or array is followed by its members and then by an `end` with the same path.
using JsonVisitor = std::function<void(const std::vector<std::string>& path, const JsonValue&)>;

void walk_json(std::string_view text, std::string_view name, const JsonLimits& limits,
               const JsonVisitor& visit);
void walk_json_file(const fs::path& path, const JsonLimits& limits, const JsonVisitor& visit);

}  // namespace deltasane
