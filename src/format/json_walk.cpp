#include "format/json_walk.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/printable.h"

namespace deltasane {
namespace {

using Json = nlohmann::json;

// The parser's event handler. Every member function returns true: errors throw.
class Walker {
 public:
  Walker(std::string_view name, const JsonLimits& limits, const JsonVisitor& visit)
      : name_(name), limits_(limits), visit_(visit) {}

  bool null() { return scalar({.kind = JsonValue::Kind::nothing, .text = {}}); }
  bool boolean(bool value) {
    return scalar({.kind = JsonValue::Kind::truth, .text = {}, .natural = value});
  }
  bool number_integer(int64_t value) {
    if (value >= 0) return number_unsigned(uint64_t(value));
    return scalar({.kind = JsonValue::Kind::negative, .text = {}, .negative = value});
  }
  bool number_unsigned(uint64_t value) {
    return scalar({.kind = JsonValue::Kind::natural, .text = {}, .natural = value});
  }
  bool number_float(double value, const std::string&) {
    return scalar({.kind = JsonValue::Kind::real, .text = {}, .real = value});
  }
  bool string(const std::string& value) {
    check_length(value);
    return scalar({.kind = JsonValue::Kind::text, .text = value});
  }
  bool binary(Json::binary_t&) { return true; }  // JSON text has none

  bool start_object(size_t) { return open({.kind = JsonValue::Kind::object, .text = {}}); }
  bool start_array(size_t) { return open({.kind = JsonValue::Kind::array, .text = {}}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(const std::string& key) {
    check_length(key);
    if (open_.back().keys.size() >= limits_.keys)
      fail(Fault::file, name_, ": expected at most ", limits_.keys,
           " keys in an object, found more");
    if (!open_.back().keys.insert(key).second)
      fail(Fault::file, name_, ": key ", printable(key),
           ": expected it once in an object, found it twice");
    path_.push_back(key);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    fail(Fault::file, name_, ": at byte ", position, ": expected JSON, found something else");
  }

 private:
  struct Container {
    bool object;
    std::unordered_set<std::string> keys;
  };

  void check_length(const std::string& text) const {
    if (text.size() > limits_.text)
      fail(Fault::file, name_, ": expected strings of at most ", limits_.text, " bytes, found ",
           text.size());
  }
  // After a value: removes its key from the path.
  bool complete() {
    if (!open_.empty() && open_.back().object) path_.pop_back();
    return true;
  }
  bool scalar(const JsonValue& value) {
    visit_(path_, value);
    return complete();
  }
  bool open(const JsonValue& value) {
    if (open_.size() >= limits_.depth)
      fail(Fault::file, name_, ": expected JSON nested at most ", limits_.depth,
           " deep, found more");
    visit_(path_, value);
    open_.push_back({value.kind == JsonValue::Kind::object, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    visit_(path_, {.kind = JsonValue::Kind::end, .text = {}});
    return complete();
  }

  std::string_view name_;
  const JsonLimits& limits_;
  const JsonVisitor& visit_;
  std::vector<std::string> path_;
  std::vector<Container> open_;
};

// Rejects a very long string before the parser spends seconds on it. A run without a quote that is
// longer than the limit contains one of these windows entirely.
void reject_long_runs(std::string_view text, std::string_view name, size_t longest) {
  const size_t window = longest / 2 + 1;
  for (size_t at = 0; at + window <= text.size(); at += window) {
    if (text.substr(at, window).find('"') != text.npos) continue;
    const size_t before = text.rfind('"', at), after = std::min(text.find('"', at), text.size());
    const size_t begin = before == text.npos ? 0 : before + 1;
    if (after - begin > longest)
      fail(Fault::file, name, ": at byte ", begin, ": expected strings of at most ", longest,
           " bytes, found ", after - begin);
  }
}

}  // namespace

void walk_json(std::string_view text, std::string_view name, const JsonLimits& limits,
               const JsonVisitor& visit) {
  // The parser treats a zero byte as the end of input and would ignore the rest.
  if (const size_t zero = text.find('\0'); zero != text.npos)
    fail(Fault::file, name, ": at byte ", zero, ": expected JSON, found a zero byte");
  reject_long_runs(text, name, limits.text);
  Walker walker(name, limits, visit);
  Json::sax_parse(text.begin(), text.end(), &walker);
}

void walk_json_file(const fs::path& path, const JsonLimits& limits, const JsonVisitor& visit) {
  const MappedFile file(path);
  if (file.bytes().size() > limits.file)
    fail(Fault::file, path, ": expected at most ", limits.file, " bytes of JSON, found ",
         file.bytes().size());
  walk_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
            path.string(), limits, visit);
}

}  // namespace deltasane
