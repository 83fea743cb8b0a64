#include "serve/wire/body.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "format/json_walk.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_values = size_t{1} << 21;

// Builds a value from the events of a walk.
class Builder {
 public:
  void take(const std::vector<std::string>& path, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    if (value.kind == Kind::end) return open_.pop_back();
    if (++values_ > most_values)
      fail(Fault::file, "request body: expected at most ", most_values, " values, found more");
    switch (value.kind) {
      case Kind::object:
        return open(path, Json::object());
      case Kind::array:
        return open(path, Json::array());
      case Kind::text:
        return put(path, std::string(value.text));
      case Kind::natural:
        return put(path, value.natural);
      case Kind::negative:
        return put(path, value.negative);
      case Kind::real:
        return put(path, value.real);
      case Kind::truth:
        return put(path, value.natural != 0);
      case Kind::nothing:
        return put(path, nullptr);
      case Kind::end:
        break;
    }
  }
  Json root;

 private:
  void put(const std::vector<std::string>& path, Json value) { add(path, std::move(value)); }
  void open(const std::vector<std::string>& path, Json value) {
    open_.push_back(&add(path, std::move(value)));
  }
  Json& add(const std::vector<std::string>& path, Json value) {
    if (open_.empty()) return root = std::move(value);
    Json& to = *open_.back();
    if (to.is_array()) {
      to.push_back(std::move(value));
      return to.back();
    }
    // The walk has refused keys that come twice.
    auto& members = to.get_ref<Json::object_t&>();
    members.Container::emplace_back(path.back(), std::move(value));
    return members.back().second;
  }

  std::vector<Json*> open_;
  size_t values_ = 0;
};

std::string kind_of(const Json& value) {
  if (value.is_string()) return cat("the text ", printable(value.get_ref<const std::string&>()));
  if (value.is_number() || value.is_boolean()) return value.dump();
  return value.is_null() ? "null" : cat("an ", value.type_name());
}

bool is_empty(const Json& value) {
  return value == Json("") || (value.is_structured() && value.empty());
}

}  // namespace

Json read_json(std::string_view text) {
  Builder builder;
  try {
    walk_json(text, "request body", {.depth = 32, .text = text.size() + 1, .keys = 1024},
              [&](const auto& path, const JsonValue& value) { builder.take(path, value); });
  } catch (const Error& error) {
    throw Refusal(400, "bad_json", error.what());
  }
  if (!builder.root.is_object())
    throw Refusal(400, "bad_json",
                  cat("request body: expected a JSON object, found ", kind_of(builder.root)));
  return std::move(builder.root);
}

bool is_json(const HttpRequest& request) {
  const std::string_view type = request.header("content-type");
  const std::string_view kind = type.substr(0, type.find(';'));
  return kind.substr(0, kind.find_last_not_of(" \t") + 1) == "application/json";
}

Json read_body(const HttpRequest& request) {
  if (!is_json(request))
    throw Refusal(415, "content_type",
                  cat("header content-type: expected application/json, found ",
                      printable(request.header("content-type"))));
  return read_json(request.body);
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void refuse_field(const std::string& param, const std::string& message, std::string code) {
  throw Refusal(400, std::move(code), cat(param, ": ", message), param);
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse_field(path_, cat("expected an object, found ", kind_of(object)));
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : cat(path_, ".", name);
}

const Json* Fields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string())
    refuse_field(path_of(name), cat("expected a text, found ", kind_of(*value)));
  return value->get<std::string>();
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean())
    refuse_field(path_of(name), cat("expected true or false, found ", kind_of(*value)));
  return value->get<bool>();
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  const bool is_small = value->is_number_integer() &&
                        (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t(INT64_MAX));
  // Some clients write whole numbers as 16.0.
  const bool is_whole = value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
                        value->get<double>() == std::floor(value->get<double>());
  if ((!is_small && !is_whole) || value->get<int64_t>() < low || value->get<int64_t>() > high)
    refuse_field(path_of(name),
                 cat("expected a whole number from ", low, " to ", high, ", found ", kind_of(*value)));
  return value->get<int64_t>();
}

std::optional<uint64_t> Fields::natural(std::string_view name) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number_integer())
    refuse_field(path_of(name), cat("expected a whole number of 64 bits, found ", kind_of(*value)));
  return value->is_number_unsigned() ? value->get<uint64_t>() : uint64_t(value->get<int64_t>());
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* const value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high))
    refuse_field(path_of(name),
                 cat("expected a number from ", low, " to ", high, ", found ", kind_of(*value)));
  return value->get<double>();
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void Fields::refuse_unless_empty(std::string_view name, std::string_view why) {
  const Json* const value = find(name);
  if (value && !is_empty(*value) && *value != Json(false) && *value != Json(0))
    refuse_field(path_of(name), std::string(why), "unsupported");
}

void Fields::refuse_unless_off(std::string_view name, const Json& off, std::string_view instead) {
  const Json* const value = find(name);
  if (value && !is_empty(*value) && *value != off)
    refuse_field(path_of(name),
                 cat("expected none or ", dump(off), ", found ", kind_of(*value), "; ", instead),
                 "unsupported");
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name)) names.push_back(name);
  return names;
}

std::string header_list(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    const bool is_plain = std::ranges::all_of(name, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '_' || c == '-';
    });
    if (!is_plain || name.empty() || list.size() + name.size() > 510) continue;
    list += list.empty() ? name : cat(", ", name);
  }
  return list;
}

}  // namespace deltasane::serve
