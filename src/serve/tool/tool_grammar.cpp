#include "serve/tool/tool_grammar.h"

#include <algorithm>
#include <optional>
#include <set>

#include "serve/wire/json_schema.h"

namespace deltasane::serve {
namespace {

constexpr std::string_view call_begin = "<tool_call>", call_end = "</tool_call>",
                           parameter_end = "</parameter>";

// Any text up to the first `end`, which belongs to it; `after` follows. Where the text may stop, it
// may do so in front of `end`, too. `never` does not occur in it. The rules are the states of Aho and
// Corasick's automaton: what the text ends with that may become one of the two.
std::string rule_of_text(GrammarText& grammar, std::string_view end, std::string_view never,
                         const std::string& after, bool may_stop) {
  std::vector<std::string> states;  // the first is the empty one
  std::set<char> letters;
  for (const std::string_view word : {end, never})
    for (size_t length = 0; length < word.size(); ++length) {
      letters.insert(word[length]);
      if (std::ranges::find(states, word.substr(0, length)) == states.end())
        states.emplace_back(word.substr(0, length));
    }
  std::vector<std::string> names;
  for (size_t i = 0; i < states.size(); ++i) names.push_back(grammar.reserve());
  std::string others = "[^";
  for (const char letter : letters) {
    if (letter == ']' || letter == '\\' || letter == '^' || letter == '-') others += '\\';
    others += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    std::string body = cat(others, "] ", names[0]);
    for (const char letter : letters) {
      std::string_view text = states[i];
      const std::string longer = cat(text, std::string_view(&letter, 1));
      text = longer;
      if (!never.empty() && text.ends_with(never)) continue;
      if (text.ends_with(end)) {
        body += cat(" | ", grammar_literal(std::string_view(&letter, 1)), " ", after);
        continue;
      }
      while (std::ranges::find(states, text) == states.end()) text.remove_prefix(1);
      const auto next = size_t(std::ranges::find(states, text) - states.begin());
      body += cat(" | ", grammar_literal(std::string_view(&letter, 1)), " ", names[next]);
    }
    grammar.define(names[i], may_stop ? body + " | \"\"" : body);
  }
  return names[0];
}

class CallGrammar {
 public:
  explicit CallGrammar(const ToolFields& tools) : tools_(tools) {}

  std::string write() {
    std::string any;
    for (const Tool& tool : tools_.tools) any += cat(any.empty() ? "" : " | ", rule_of_call(tool));
    const bool is_fenced = tools_.format == ToolFormat::fenced_json;
    const std::string_view begin = is_fenced ? "```json" : call_begin;
    const std::string call = grammar_.add(any);
    const std::string more = cat(" (", grammar_literal(cat("\n", begin)), " ", call, ")*");
    const std::string calls = grammar_.add(call + (tools_.calls_one ? "" : more));
    if (!tools_.must_call)
      return grammar_.with_root(rule_of_text(grammar_, begin, {}, calls, true));
    return grammar_.with_root(cat(is_fenced ? "\" \"? " : "", grammar_literal(begin), " ", calls));
  }

 private:
  // Without the mark in front of it.
  std::string rule_of_call(const Tool& tool) {
    if (tools_.format == ToolFormat::tagged_parameters)
      return grammar_.add(cat(grammar_literal(cat("\n<function=", tool.name, ">\n")), " ",
                              rule_of_parameters(tool), " ",
                              grammar_literal(cat("</function>\n", call_end))));
    const bool is_fenced = tools_.format == ToolFormat::fenced_json;
    const std::string name = dump(Json(tool.name));
    return grammar_.add(cat(
        grammar_literal(is_fenced ? cat("\n{\"name\":", name, ",\"arguments\":")
                                  : cat("\n{\"name\": ", name, ", \"arguments\": ")),
        " ", rule_of_arguments(tool), " ",
        grammar_literal(is_fenced ? std::string("}\n```") : cat("}\n", call_end))));
  }

  // None: it is not understood, and need not be.
  std::optional<std::string> rule_of(const Tool& tool, const Json& schema, const std::string& path) {
    const GrammarText before = grammar_;
    try {
      return rule_of_schema(grammar_, schema, *tool.parameters(), path);
    } catch (const Refusal&) {
      if (tool.is_strict) throw;
      grammar_ = before;
      return std::nullopt;
    }
  }

  std::string path_of(const Tool& tool) const { return cat(tool.path, ".parameters"); }

  std::string rule_of_arguments(const Tool& tool) {
    const Json* const schema = tool.parameters();
    return schema ? rule_of(tool, *schema, path_of(tool)).value_or("object") : "object";
  }

  std::string rule_of_parameters(const Tool& tool) {
    const Json* const schema = tool.parameters();
    if (!schema || !schema->contains("properties"))
      return cat("(\"<parameter=\" [A-Za-z0-9_.-]{1,64} \">\\n\" ", rule_of_any_text(), ")*");
    const Json required = schema->value("required", Json::array());
    std::string body;
    for (const auto& [key, one] : (*schema)["properties"].items()) {
      const bool must = required.is_array() && std::ranges::find(required, Json(key)) != required.end();
      const std::string rule = cat(grammar_literal(cat("<parameter=", key, ">\n")), " ",
                                   rule_of_value(tool, one, key));
      body += cat(body.empty() ? "" : " ", must ? rule : cat("(", rule, ")?"));
    }
    return body.empty() ? "\"\"" : body;
  }

  // With the tag that ends it.
  std::string rule_of_value(const Tool& tool, const Json& schema, const std::string& key) {
    const std::string after = grammar_literal(cat("\n", parameter_end, "\n"));
    const std::string path = cat(path_of(tool), ".properties.", key);
    Json plain = schema;
    if (plain.is_object())
      for (const char* const word : {"title", "description", "default", "examples"}) plain.erase(word);
    if (plain == Json{{"type", "string"}}) return rule_of_any_text();
    if (plain.is_object() && plain.value("type", Json()) == Json("string")) {
      const Json list = plain.value("enum", Json());
      std::string body;
      for (const Json& one : list)
        if (one.is_string())
          body += cat(body.empty() ? "" : " | ", grammar_literal(one.get<std::string>()));
      if (!body.empty() && plain.size() == 2) return cat("(", body, ") ", after);
      if (!tool.is_strict) return rule_of_any_text();
      refuse_field(path, "expected a text of any length, or one of several", "unsupported");
    }
    const auto rule = rule_of(tool, schema, path);
    return rule ? cat(*rule, " ", after) : rule_of_any_text();
  }

  std::string rule_of_any_text() {
    if (any_text_.empty())
      any_text_ = rule_of_text(grammar_, parameter_end, call_end, "\"\\n\"", false);
    return any_text_;
  }

  const ToolFields& tools_;
  GrammarText grammar_;
  std::string any_text_;
};

}  // namespace

std::string grammar_of_tools(const ToolFields& tools) {
  const bool is_strict = std::ranges::any_of(tools.tools, &Tool::is_strict);
  if (tools.tools.empty() || (!tools.must_call && !is_strict)) return {};
  return CallGrammar(tools).write();
}

}  // namespace deltasane::serve
