#include "serve/wire/json_schema.h"

#include <algorithm>
#include <map>

namespace deltasane::serve {
namespace {

constexpr std::string_view values =
    "ws ::= [ \\n]?\n"
    "char ::= [^\"\\\\\\x00-\\x1f\\x7f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
    "number ::= integer (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "array ::= \"[\" ws (value (ws \",\" ws value)*)? ws \"]\"\n"
    "member ::= string ws \":\" ws value\n"
    "object ::= \"{\" ws (member (ws \",\" ws member)*)? ws \"}\"\n"
    "value ::= object | array | string | number | boolean | null\n";

constexpr int64_t most_repetitions = 1000;
constexpr size_t deepest = 64;

class Writer {
 public:
  Writer(GrammarText& grammar, const Json& root) : grammar_(grammar), root_(root) {}

  // The name of the rule for a schema.
  std::string rule_of(const Json& schema, const std::string& path, size_t depth) {
    if (depth > deepest) refuse_field(path, "expected a schema that is nested less deeply");
    if (schema.is_boolean() && schema.get<bool>()) return "value";
    if (!schema.is_object()) refuse_field(path, "expected a schema, an object");
    Fields fields(schema, path);
    fields.accept({"title", "description", "default", "examples", "$schema", "$id", "$comment",
                   "deprecated", "readOnly", "writeOnly", "$defs", "definitions"});
    const std::string name = choose(fields, path, depth);
    if (const auto unknown = fields.unknown(); !unknown.empty())
      refuse_field(fields.path_of(unknown[0]), "expected a keyword that is supported",
                   "unsupported");
    return name;
  }

 private:
  std::string add(const std::string& body) { return grammar_.add(body); }

  std::string choose(Fields& fields, const std::string& path, size_t depth) {
    if (const auto reference = fields.text("$ref")) return rule_of_reference(*reference, path, depth);
    if (const Json* const value = fields.find("const")) {
      fields.accept({"type"});
      return add(grammar_literal(dump(*value)));
    }
    if (const Json* const list = fields.find("enum")) {
      if (!list->is_array() || list->empty()) refuse_field(cat(path, ".enum"), "expected a list");
      fields.accept({"type"});
      std::string body;
      for (const Json& value : *list) body += cat(body.empty() ? "" : " | ", grammar_literal(dump(value)));
      return add(body);
    }
    for (const char* const word : {"anyOf", "oneOf", "allOf"}) {
      const Json* const list = fields.find(word);
      if (!list) continue;
      const std::string here = cat(path, ".", word);
      if (!list->is_array() || list->empty()) refuse_field(here, "expected a list of schemas");
      if (std::string_view(word) == "allOf" && list->size() != 1)
        refuse_field(here, "expected one schema", "unsupported");
      std::string body;
      size_t number = 0;
      for (const Json& one : *list)
        body += cat(body.empty() ? "" : " | ", rule_of(one, cat(here, "[", number++, "]"), depth + 1));
      return add(body);
    }
    return rule_of_types(fields, path, depth);
  }

  std::string rule_of_reference(const std::string& reference, const std::string& path,
                                size_t depth) {
    const auto known = references_.find(reference);
    if (known != references_.end()) return known->second;
    const Json* target = &root_;
    if (reference != "#") {
      if (!reference.starts_with("#/"))
        refuse_field(cat(path, ".$ref"), "expected a place in this schema", "unsupported");
      for (size_t at = 2; at <= reference.size();) {
        const size_t end = std::min(reference.find('/', at), reference.size());
        const std::string part = reference.substr(at, end - at);
        if (!target->is_object() || !target->contains(part))
          refuse_field(cat(path, ".$ref"), "expected a place in this schema, found none");
        target = &(*target)[part];
        at = end + 1;
      }
    }
    const std::string name = grammar_.reserve();
    references_[reference] = name;  // before it is written: it may lead to itself
    const std::string rule = rule_of(*target, cat(path, ".$ref"), depth + 1);
    grammar_.define(name, rule);
    return name;
  }

  std::string rule_of_types(Fields& fields, const std::string& path, size_t depth) {
    const Json* const type = fields.find("type");
    if (!type) {
      if (fields.find("properties")) return rule_of_object(fields, path, depth);
      return "value";
    }
    std::vector<std::string> types;
    if (type->is_string())
      types.push_back(type->get<std::string>());
    else if (type->is_array())
      for (const Json& one : *type) types.push_back(one.is_string() ? one.get<std::string>() : "");
    std::string body;
    for (const std::string& one : types)
      body += cat(body.empty() ? "" : " | ", rule_of_type(one, fields, path, depth));
    if (body.empty()) refuse_field(cat(path, ".type"), "expected the name of a type, or several");
    return types.size() == 1 ? body : add(body);
  }

  std::string rule_of_type(const std::string& type, Fields& fields, const std::string& path,
                           size_t depth) {
    if (type == "object") return rule_of_object(fields, path, depth);
    if (type == "array") return rule_of_array(fields, path, depth);
    if (type == "string") {
      const auto least = fields.integer("minLength", 0, most_repetitions);
      const auto most = fields.integer("maxLength", 0, most_repetitions);
      if (!least && !most) return "string";
      return add(cat("\"\\\"\" char", repetition(least.value_or(0), most), " \"\\\"\""));
    }
    for (const char* const plain : {"integer", "number", "boolean", "null"})
      if (type == plain) return type;
    refuse_field(cat(path, ".type"),
                 "expected object, array, string, number, integer, boolean or null");
  }

  static std::string repetition(int64_t least, std::optional<int64_t> most) {
    return most ? cat("{", least, ",", *most, "}") : cat("{", least, ",}");
  }

  std::string rule_of_array(Fields& fields, const std::string& path, size_t depth) {
    const Json* const items = fields.find("items");
    const std::string item = items ? rule_of(*items, cat(path, ".items"), depth + 1) : "value";
    const int64_t least = fields.integer("minItems", 0, most_repetitions).value_or(0);
    const auto most = fields.integer("maxItems", least, most_repetitions);
    if (most && *most == 0) return add("\"[\" ws \"]\"");
    const std::string more =
        cat("(ws \",\" ws ", item, ")",
            repetition(std::max<int64_t>(least - 1, 0), most ? std::optional(*most - 1) : most));
    const std::string all = cat(item, " ", more);
    return add(cat("\"[\" ws ", least > 0 ? all : cat("(", all, ")?"), " ws \"]\""));
  }

  std::string rule_of_object(Fields& fields, const std::string& path, size_t depth) {
    const Json* const properties = fields.find("properties");
    const Json* const required = fields.find("required");
    const Json* const others = fields.find("additionalProperties");
    const bool has_others = others && !(others->is_boolean() && !others->get<bool>());
    if (!properties || properties->empty()) {
      if (required && !required->empty())
        refuse_field(cat(path, ".required"), "expected properties with these names");
      if (others && !has_others) return add("\"{\" ws \"}\"");
      const std::string value =
          has_others ? rule_of(*others, cat(path, ".additionalProperties"), depth + 1) : "value";
      const std::string member = add(cat("string ws \":\" ws ", value));
      return add(cat("\"{\" ws (", member, " (ws \",\" ws ", member, ")*)? ws \"}\""));
    }
    if (!properties->is_object()) refuse_field(cat(path, ".properties"), "expected an object");
    if (has_others && !others->is_boolean())
      refuse_field(cat(path, ".additionalProperties"), "expected false beside properties", "unsupported");
    const auto is_required = [&](const std::string& name) {
      return required && required->is_array() && std::ranges::find(*required, Json(name)) != required->end();
    };
    if (required && required->is_array())
      for (const Json& name : *required)
        if (!name.is_string() || !properties->contains(name.get<std::string>()))
          refuse_field(cat(path, ".required"), "expected names of properties");
    // From the last to the first: what can follow where nothing was written yet, and where a comma
    // is needed.
    std::vector<std::pair<std::string, std::string>> members;
    for (const auto& [name, schema] : properties->items())
      members.emplace_back(name, cat(grammar_literal(dump(Json(name))), " ws \":\" ws ",
                                     rule_of(schema, cat(path, ".properties.", name), depth + 1)));
    std::string first = "\"\"", more = "\"\"";
    for (size_t i = members.size(); i-- > 0;) {
      const bool must = is_required(members[i].first);
      const std::string here = add(members[i].second);
      const std::string first_here = add(cat(here, " ", more, must ? "" : cat(" | ", first)));
      const std::string more_here =
          add(cat("ws \",\" ws ", here, " ", more, must ? "" : cat(" | ", more)));
      first = first_here, more = more_here;
    }
    return add(cat("\"{\" ws ", first, " ws \"}\""));
  }

  GrammarText& grammar_;
  const Json& root_;
  std::map<std::string, std::string> references_;
};

}  // namespace

std::string grammar_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < ' ')
      out += cat("\\x", "01"[c >> 4], "0123456789abcdef"[c & 15]);
    else
      out += c;
  }
  return out + "\"";
}

std::string GrammarText::add(const std::string& body) {
  const std::string name = reserve();
  define(name, body);
  return name;
}

std::string GrammarText::with_root(const std::string& body) const {
  return cat("root ::= ", body, "\n", rules_, values);
}

std::string rule_of_schema(GrammarText& grammar, const Json& schema, const Json& root,
                           const std::string& path) {
  return Writer(grammar, root).rule_of(schema, path, 0);
}

std::string any_object_grammar() { return GrammarText().with_root("object"); }

std::string grammar_of_schema(const Json& schema, const std::string& path) {
  GrammarText grammar;
  return grammar.with_root(rule_of_schema(grammar, schema, schema, path));
}

}  // namespace deltasane::serve
