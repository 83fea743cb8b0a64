// The JSON body of a request: parsed with limits, and read field by field with types and ranges.
// What is wrong is a Refusal that names the field, what was expected and what was found.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"

namespace deltasane::serve {

using Json = nlohmann::ordered_json;

// An object. Refused: another content type, what walk_json refuses (format/json_walk.h), nesting
// deeper than 32, more than 1024 keys in an object, more than 2^21 values.
Json read_body(const HttpRequest& request);
bool is_json(const HttpRequest& request);  // by its content type
Json read_json(std::string_view text);

std::string dump(const Json& value);  // on one line

[[noreturn]] void refuse_field(const std::string& param, const std::string& message,
                               std::string code = "invalid_value");

// What `call` finds wrong is refused of this field.
template <class Call>
decltype(auto) of_field(const char* param, Call&& call) {
  try {
    return call();
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    if (error.fault() != Fault::usage) throw;
    throw Refusal(400, "invalid_value", error.what(), param);
  }
}

// The fields of one object. Those that nobody asked for are unknown. Null is like absent.
class Fields {
 public:
  // `object` outlives it; `path` is where the object is: "", or "messages[2]".
  explicit Fields(const Json& object, std::string path = {});

  const Json* find(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<uint64_t> natural(std::string_view name);  // of 64 bits
  std::optional<double> number(std::string_view name, double low, double high);

  void accept(std::initializer_list<std::string_view> names);  // they change nothing
  // Refused where it is there and is none of false, 0, "", [] and {}.
  void refuse_unless_empty(std::string_view name, std::string_view why);
  // Refused where it is there and is none of `off`, "", [] and {}.
  void refuse_unless_off(std::string_view name, const Json& off, std::string_view instead);

  std::string path_of(std::string_view name) const;
  std::vector<std::string> unknown() const;  // names, in their order

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

// All of it is a number.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size())
    return std::nullopt;
  return value;
}

// A header's value: the names with commas, at most 512 bytes, and only those of plain letters.
std::string header_list(const std::vector<std::string>& names);

}  // namespace deltasane::serve
