#include "format/tokenizer/json_tree.h"

#include <nlohmann/json.hpp>

namespace deltasane {
namespace {

using JsonTree = nlohmann::json;

JsonTree empty_value(const JsonValue& value) {
  using Kind = JsonValue::Kind;
  switch (value.kind) {
    case Kind::object:
      return JsonTree::object();
    case Kind::array:
      return JsonTree::array();
    case Kind::text:
      return std::string(value.text);
    case Kind::natural:
      return value.natural;
    case Kind::negative:
      return value.negative;
    case Kind::real:
      return value.real;
    case Kind::truth:
      return value.natural != 0;
    case Kind::end:
    case Kind::nothing:
      break;
  }
  return nullptr;
}

class TreeBuilder {
 public:
  void take(const std::vector<std::string>& path, const JsonValue& value) {
    if (value.kind == JsonValue::Kind::end) return open_.pop_back();
    JsonTree* placed = &root_;
    if (open_.empty())
      root_ = empty_value(value);
    else if (open_.back()->is_object())
      placed = &((*open_.back())[path.back()] = empty_value(value));
    else
      placed = &open_.back()->emplace_back(empty_value(value));
    if (placed->is_structured()) open_.push_back(placed);
  }
  JsonTree take_root() { return std::move(root_); }

 private:
  JsonTree root_;
  std::vector<JsonTree*> open_;  // the containers around the next value; none moves while it is here
};

}  // namespace

JsonTree read_json_tree(std::string_view text, std::string_view name, const JsonLimits& limits) {
  TreeBuilder builder;
  walk_json(text, name, limits,
            [&](const auto& path, const JsonValue& value) { builder.take(path, value); });
  return builder.take_root();
}

JsonTree read_json_tree_file(const fs::path& path, const JsonLimits& limits) {
  TreeBuilder builder;
  walk_json_file(path, limits,
                 [&](const auto& at, const JsonValue& value) { builder.take(at, value); });
  return builder.take_root();
}

}  // namespace deltasane
