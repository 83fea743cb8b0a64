#include "serve/tool/tool.h"

#include <algorithm>

#include "base/printable.h"
#include "text/chat/world_chat.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_tools = 128, most_name = 64;

bool is_function_name(std::string_view name) {
  return is_plain_name(name) && name.size() <= most_name && name.find('.') == name.npos;
}

Tool read_tool(const Json& one, const std::string& path, ToolNotation notation) {
  Fields fields(one, path);
  if (fields.text("type").value_or("") != "function")
    refuse_field(cat(path, ".type"), "expected function; others are not supported", "unsupported");
  const bool is_flat = notation == ToolNotation::flat;
  Tool tool{{}, is_flat ? path : cat(path, ".function"), one};
  if (is_flat) {
    Json function = one;
    function.erase("type");
    tool.definition = {{"type", "function"}, {"function", std::move(function)}};
  } else if (!fields.find("function")) {
    refuse_field(tool.path, "expected a function, found none");
  }
  Fields inner(tool.definition["function"], tool.path);
  tool.name = inner.text("name").value_or("");
  if (!is_function_name(tool.name))
    refuse_field(inner.path_of("name"), cat("expected 1 to ", most_name,
                                            " letters, digits, _ or -, found ", printable(tool.name)));
  inner.text("description");
  tool.is_strict = inner.flag("strict").value_or(false);
  if (const Json* const schema = inner.find("parameters")) {
    Fields parameters(*schema, inner.path_of("parameters"));
    if (parameters.text("type").value_or("object") != "object")
      refuse_field(parameters.path_of("type"), "expected object");
    if (const Json* const properties = parameters.find("properties"))
      Fields(*properties, parameters.path_of("properties"));
  }
  return tool;
}

void read_choice(Fields& fields, ToolFields& found, ToolNotation notation) {
  const Json* const choice = fields.find("tool_choice");
  if (!choice) return;
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word != "none" && word != "auto" && word != "required")
      refuse_field("tool_choice", cat("expected none, auto, required or a function, found ",
                                      printable(word)));
    found.must_call = word == "required";
    if (found.must_call && found.tools.empty())
      refuse_field("tool_choice", "expected tools with required, found none");
    if (word == "none") found.tools.clear();
    return;
  }
  Fields named(*choice, "tool_choice");
  const bool is_flat = notation == ToolNotation::flat;
  const Json* const function = is_flat ? choice : named.find("function");
  if (named.text("type").value_or("") != "function" || !function)
    refuse_field("tool_choice", "expected none, auto, required or a function");
  Fields inner(*function, is_flat ? "tool_choice" : "tool_choice.function");
  const std::string name = inner.text("name").value_or("");
  if (!found.find(name))
    refuse_field(inner.path_of("name"),
                 cat("expected the name of one of the tools, found ", printable(name)));
  std::erase_if(found.tools, [&](const Tool& tool) { return tool.name != name; });
  found.must_call = true;
}

// As the World models were trained on: parameters under the name of arguments, nothing else.
Json short_definition(const Tool& tool) {
  const Json& function = tool.definition["function"];
  Json shown{{"name", tool.name}};
  if (const auto text = function.find("description"); text != function.end() && text->is_string())
    shown["description"] = *text;
  const Json* const schema = tool.parameters();
  shown["arguments"] =
      schema && schema->contains("properties") ? (*schema)["properties"] : Json::object();
  return shown;
}

std::string tagged_definitions(const ToolFields& tools) {
  std::string text = "<tools>";
  for (const Tool& tool : tools.tools) text += cat("\n", spaced_json(tool.definition));
  return text + "\n</tools>\n\n";
}

std::string call_text(ToolFormat format, const ToolCall& call) {
  if (format == ToolFormat::fenced_json)
    return cat("```json\n", dump({{"name", call.name}, {"arguments", call.arguments}}), "\n```");
  if (format == ToolFormat::tagged_json)
    return cat("<tool_call>\n",
               spaced_json({{"name", call.name}, {"arguments", call.arguments}}),
               "\n</tool_call>");
  std::string text = cat("<tool_call>\n<function=", call.name, ">\n");
  for (const auto& [key, value] : call.arguments.items())
    text += cat("<parameter=", key, ">\n",
                value.is_string() ? value.get<std::string>() : spaced_json(value),
                "\n</parameter>\n");
  return text + "</function>\n</tool_call>";
}

}  // namespace

const Json* Tool::parameters() const {
  const Json& function = definition["function"];
  const auto found = function.find("parameters");
  return found == function.end() || found->is_null() ? nullptr : &*found;
}

const Json* Tool::parameter(const std::string& key) const {
  const Json* const schema = parameters();
  if (!schema || !schema->contains("properties")) return nullptr;
  const Json& properties = (*schema)["properties"];
  const auto found = properties.find(key);
  return found == properties.end() || !found->is_object() ? nullptr : &*found;
}

const Tool* ToolFields::find(std::string_view name) const {
  const auto found = std::ranges::find(tools, name, &Tool::name);
  return found == tools.end() ? nullptr : &*found;
}

std::shared_ptr<const ToolFields> read_tools(Fields& fields, const ChatTemplate& chat,
                                             ToolNotation notation) {
  const auto found = std::make_shared<ToolFields>();
  found->format = chat.tools();
  found->calls_one = !fields.flag("parallel_tool_calls").value_or(true);
  for (const char* const name : {"functions", "function_call"})
    fields.refuse_unless_empty(name, "use tools and tool_choice");
  if (const Json* const list = fields.find("tools")) {
    if (!list->is_array() || list->size() > most_tools)
      refuse_field("tools", cat("expected a list of at most ", most_tools, " functions"));
    if (!list->empty() && found->format == ToolFormat::none)
      refuse_field("tools",
                   cat("expected none: the chat template ", chat.name(), " has no calls of functions"),
                   "unsupported");
    for (const Json& one : *list) {
      Tool tool = read_tool(one, cat("tools[", found->tools.size(), "]"), notation);
      if (found->find(tool.name))
        refuse_field(cat(tool.path, ".name"),
                     cat("expected another name, found ", tool.name, " twice"));
      found->tools.push_back(std::move(tool));
    }
  }
  read_choice(fields, *found, notation);
  return found;
}

std::string spaced_json(const Json& value) {
  if (!value.is_structured()) return dump(value);
  const bool is_object = value.is_object();
  std::string text = is_object ? "{" : "[";
  for (const auto& [key, member] : value.items()) {
    if (text.size() > 1) text += ", ";
    if (is_object) text += cat(dump(Json(key)), ": ");
    text += spaced_json(member);
  }
  return text + (is_object ? "}" : "]");
}

std::string system_text(const ToolFields& tools, std::string_view system) {
  if (tools.format == ToolFormat::fenced_json) {
    Json list = Json::array();
    for (const Tool& tool : tools.tools) list.push_back(short_definition(tool));
    return cat("Tools:\n", dump(list), "\nReturn only a JSON function call.",
               system.empty() ? "" : "\n", system);
  }
  if (tools.format == ToolFormat::tagged_json)
    return cat(system, system.empty() ? "" : "\n\n",
               "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
               "You are provided with function signatures within <tools></tools> XML tags:\n",
               tagged_definitions(tools),
               "For each function call, return a json object with function name and arguments within "
               "<tool_call></tool_call> XML tags:\n<tool_call>\n"
               "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>");
  return cat("# Tools\n\nYou have access to the following functions:\n\n", tagged_definitions(tools),
             "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
             "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\n"
             "value_1\n</parameter>\n<parameter=example_parameter_2>\n"
             "This is the value for the second parameter\nthat can span\nmultiple lines\n"
             "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
             "- Function calls MUST follow the specified format: an inner <function=...></function> "
             "block must be nested within <tool_call></tool_call> XML tags\n"
             "- Required parameters MUST be specified\n"
             "- You may provide optional reasoning for your function call in natural language BEFORE "
             "the function call, but NOT after\n"
             "- If there is no function call available, answer the question like normal with your "
             "current knowledge and do not tell the user about function calls\n</IMPORTANT>",
             system.empty() ? "" : "\n\n", system);
}

std::string calls_text(ToolFormat format, std::span<const ToolCall> calls) {
  std::string text;
  for (const ToolCall& call : calls) text += cat(text.empty() ? "" : "\n", call_text(format, call));
  return text;
}

std::string results_text(ToolFormat format, std::span<const std::string> results) {
  std::string text = format == ToolFormat::fenced_json ? "Function output:" : "";
  for (const std::string& one : results) {
    if (!text.empty()) text += "\n";
    text += format == ToolFormat::fenced_json
                ? one
                : cat(tool_result_begin, "\n", trimmed(one), "\n", tool_result_end);
  }
  return text;
}

}  // namespace deltasane::serve
