// Functions that a model may call, in the format that it was trained on (ToolFormat in
// text/chat/chat_template.h): how they are told to it, and how calls and results stand in a prompt.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/wire/body.h"
#include "text/chat/chat_template.h"

namespace deltasane::serve {

struct Tool {
  std::string name, path;  // path: where its name and parameters are in the request
  Json definition;         // {"type": "function", "function": {...}}
  bool is_strict = false;  // calls keep to the schema of its parameters

  const Json* parameters() const;  // a schema; null: anything
  const Json* parameter(const std::string& key) const;  // the schema of one; null: it has none
};

struct ToolCall {
  std::string name;
  Json arguments;  // an object
};

// The fields tools, tool_choice and parallel_tool_calls.
struct ToolFields {
  ToolFormat format = ToolFormat::none;
  std::vector<Tool> tools{};  // that can be called; empty: none
  bool must_call = false;   // tool_choice: required, or a function; then it is the only one
  bool calls_one = false;   // parallel_tool_calls: false

  const Tool* find(std::string_view name) const;
  bool ends_at_call() const { return calls_one && !tools.empty(); }
};

// How a request writes a function: {"type": "function", "function": {"name", ...}} in chats,
// {"type": "function", "name", ...} in responses; likewise in tool_choice.
enum class ToolNotation { nested, flat };

// Refuses functions where the template has no format for them. `tool_choice` none is as if there
// were no functions.
std::shared_ptr<const ToolFields> read_tools(Fields& fields, const ChatTemplate& chat,
                                             ToolNotation notation = ToolNotation::nested);

// What the model is told: the text of the system's message, with the system's own.
std::string system_text(const ToolFields& tools, std::string_view system);
std::string calls_text(ToolFormat format, std::span<const ToolCall> calls);
std::string results_text(ToolFormat format, std::span<const std::string> results);

// JSON as Python's json.dumps writes it, which templates were trained with: [1, {"a": "b"}].
std::string spaced_json(const Json& value);

}  // namespace deltasane::serve
