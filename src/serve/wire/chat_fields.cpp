#include "serve/wire/chat_fields.h"

#include "base/printable.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_messages = 65536;

}  // namespace

Role read_role(const std::string& role, const std::string& path) {
  if (role == "system" || role == "developer") return Role::system;
  if (role == "user") return Role::user;
  if (role == "assistant") return Role::assistant;
  refuse_field(path, cat("expected system, developer, user or assistant, found ", printable(role)));
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

std::vector<Message> read_messages(Fields& fields) {
  const Json* const list = fields.find("messages");
  if (!list || !list->is_array() || list->empty())
    refuse_field("messages", "expected a list with at least one message");
  if (list->size() > most_messages)
    refuse_field("messages", cat("expected at most ", most_messages, ", found ", list->size()));
  std::vector<Message> messages;
  for (const Json& one : *list) {
    const std::string path = cat("messages[", messages.size(), "]");
    Fields message(one, path);
    message.refuse_unless_empty("tool_calls", "tool calls are not supported");
    const auto role = message.text("role");
    if (!role) refuse_field(cat(path, ".role"), "expected a role, found none");
    const Json* const content = message.find("content");
    const Role known = read_role(*role, cat(path, ".role"));
    if (!content && known != Role::assistant)
      refuse_field(cat(path, ".content"), "expected a text, found none");
    messages.push_back({known, content ? read_content(*content, cat(path, ".content")) : ""});
  }
  return messages;
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
