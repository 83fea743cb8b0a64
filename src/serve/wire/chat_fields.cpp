#include "serve/wire/chat_fields.h"

#include <set>

#include "base/printable.h"
#include "text/chat/world_chat.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_messages = 65536, most_calls = 128;

}  // namespace

Role read_role(const std::string& role, const std::string& path) {
  if (role == "system" || role == "developer") return Role::system;
  if (role == "user") return Role::user;
  if (role == "assistant") return Role::assistant;
  refuse_field(path, cat("expected system, developer, user, assistant or tool, found ", printable(role)));
}

std::string read_content(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_field(path, "expected a text or a list of parts");
  std::string text;
  size_t number = 0;
  for (const Json& part : content) {
    const std::string here = cat(path, "[", number++, "]");
    Fields fields(part, here);
    const std::string type = fields.text("type").value_or("text");
    if (type != "text" && type != "input_text" && type != "output_text")
      refuse_field(cat(here, ".type"), cat("expected text, found ", printable(type)), "unsupported");
    const auto piece = fields.text("text");
    if (!piece) refuse_field(cat(here, ".text"), "expected a text, found none");
    text += *piece;
  }
  return text;
}

namespace {

// The calls of an answer: adds their ids.
std::string read_calls(const Json& list, const std::string& path, ToolFormat format,
                       std::set<std::string>& ids) {
  if (!list.is_array() || list.size() > most_calls)
    refuse_field(path, cat("expected a list of at most ", most_calls, " calls"));
  if (list.empty()) return {};
  if (format == ToolFormat::none)
    refuse_field(path, "expected none: the chat template has no calls of functions", "unsupported");
  std::vector<ToolCall> calls;
  for (const Json& one : list) {
    Fields call(one, cat(path, "[", calls.size(), "]"));
    const Json* const function = call.find("function");
    if (!function) refuse_field(call.path_of("function"), "expected a function, found none");
    Fields inner(*function, call.path_of("function"));
    const auto name = inner.text("name");
    if (!name) refuse_field(inner.path_of("name"), "expected a name, found none");
    const std::string arguments = inner.text("arguments").value_or("");
    try {
      calls.push_back({*name, arguments.empty() ? Json::object() : read_json(arguments)});
    } catch (const Refusal& refusal) {
      refuse_field(inner.path_of("arguments"), cat("expected the text of a JSON object: ", refusal.what()));
    }
    if (const auto id = call.text("id")) ids.insert(*id);
  }
  return calls_text(format, calls);
}

// Reads messages one after another.
class MessageReader {
 public:
  MessageReader(const ToolFields& tools, bool after_state)
      : tools_(tools), after_state_(after_state) {}

  void take(const Json& one, const std::string& path) {
    Fields message(one, path);
    const auto role = message.text("role");
    if (!role) refuse_field(cat(path, ".role"), "expected a role, found none");
    const Json* const content = message.find("content");
    const std::string text = content ? read_content(*content, cat(path, ".content")) : "";
    if (!content && *role != "assistant")
      refuse_field(cat(path, ".content"), "expected a text, found none");
    if (*role == "tool") return take_result(message, text);
    add_results();
    Message known{read_role(*role, cat(path, ".role")), text};
    if (known.role == Role::assistant) {
      if (const Json* const calls = message.find("tool_calls"))
        known.calls = read_calls(*calls, cat(path, ".tool_calls"), tools_.format, called_);
      known.thoughts = message.text("reasoning_content").value_or("");
    }
    messages_.push_back(std::move(known));
  }

  std::vector<Message> finish() {
    add_results();
    if (tools_.tools.empty() || after_state_) return std::move(messages_);
    if (messages_[0].role != Role::system) messages_.insert(messages_.begin(), {Role::system, ""});
    messages_[0].text = system_text(tools_, trimmed(messages_[0].text));
    return std::move(messages_);
  }

 private:
  void take_result(Fields& message, const std::string& text) {
    if (tools_.format == ToolFormat::none)
      refuse_field(message.path_of("role"),
                   "expected another than tool: the chat template has no calls of functions",
                   "unsupported");
    const auto id = message.text("tool_call_id");
    if (!after_state_ && (!id || !called_.contains(*id)))
      refuse_field(message.path_of("tool_call_id"), "expected the id of a call before it");
    results_.push_back(text);
  }

  void add_results() {
    if (results_.empty()) return;
    messages_.push_back({Role::user, results_text(tools_.format, results_)});
    results_.clear();
  }

  const ToolFields& tools_;
  const bool after_state_;
  std::vector<Message> messages_;
  std::vector<std::string> results_;  // of calls, that follow each other
  std::set<std::string> called_;
};

}  // namespace

std::vector<Message> read_messages(Fields& fields, const ToolFields& tools, bool after_state) {
  const Json* const list = fields.find("messages");
  if (!list || !list->is_array() || list->empty())
    refuse_field("messages", "expected a list with at least one message");
  if (list->size() > most_messages)
    refuse_field("messages", cat("expected at most ", most_messages, ", found ", list->size()));
  return messages_in(*list, "messages", tools, after_state);
}

std::vector<Message> messages_in(const Json& list, const std::string& path, const ToolFields& tools,
                                 bool after_state) {
  MessageReader reader(tools, after_state);
  size_t number = 0;
  for (const Json& one : list) reader.take(one, cat(path, "[", number++, "]"));
  return reader.finish();
}

ReplyMode reply_mode_of_effort(const std::string& effort, const std::string& path) {
  if (effort == "none") return ReplyMode::skip_think;
  for (const char* const known : {"minimal", "low", "medium", "high", "xhigh"})
    if (effort == known) return ReplyMode::think;
  refuse_field(path, cat("expected none, minimal, low, medium, high or xhigh, found ",
                         printable(effort)));
}

ReplyMode read_reply_mode(Fields& fields, ReplyMode otherwise) {
  ReplyMode mode = otherwise;
  if (const auto effort = fields.text("reasoning_effort"))
    mode = reply_mode_of_effort(*effort, "reasoning_effort");
  if (const Json* const arguments = fields.find("chat_template_kwargs")) {
    Fields inner(*arguments, "chat_template_kwargs");
    if (const auto thinks = inner.flag("enable_thinking"))
      mode = *thinks ? ReplyMode::think : ReplyMode::skip_think;
    if (!inner.unknown().empty())
      refuse_field(inner.path_of(inner.unknown()[0]), "expected enable_thinking only", "unsupported");
  }
  return mode;
}

}  // namespace deltasane::serve
