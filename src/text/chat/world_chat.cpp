#include "text/chat/world_chat.h"

#include "base/error.h"

namespace deltasane {
namespace {

std::string with_plain_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (!text.substr(i).starts_with("\r\n")) out += text[i];
  return out;
}

std::string_view heading(Role role) {
  switch (role) {
    case Role::system:
      return "System";
    case Role::user:
      return "User";
    case Role::assistant:
      return "Assistant";
  }
  require(false, "heading knows every role");
  __builtin_unreachable();
}

std::string clean(const Message& message) {
  if (message.role != Role::assistant) return clean_text(message.text);
  const std::string answer = clean_answer(message.text);
  return message.calls.empty() || answer.empty() ? answer + message.calls
                                                 : cat(answer, "\n", message.calls);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(space);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::string clean_text(std::string_view text) {
  std::string out;
  for (const char c : with_plain_newlines(text))
    if (c != '\n' || !out.ends_with('\n')) out += c;
  return std::string(trimmed(out));
}

std::string clean_answer(std::string_view text) {
  constexpr std::string_view end_of_thoughts = "</think>";
  std::string out = with_plain_newlines(text);
  const size_t thoughts = out.rfind(end_of_thoughts);
  if (thoughts != out.npos) out.erase(0, thoughts + end_of_thoughts.size());
  return std::string(trimmed(out));
}

const ChatTemplate& world_template() {
  static const WorldTemplate world;
  return world;
}

void check_messages(std::span<const Message> messages) {
  if (messages.empty() || messages.back().role != Role::user)
    fail(Fault::usage, "messages: expected the last one to be the user's, found ",
         messages.empty() ? "no messages" : "another role");
}

std::string_view WorldTemplate::reply_beginning(ReplyMode mode) const {
  return mode == ReplyMode::plain ? "" : mode == ReplyMode::think ? " <think" : " <think>\n</think";
}

std::string chat_prompt(std::span<const Message> messages, ReplyMode mode) {
  check_messages(messages);
  std::string prompt;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string text = clean(messages[i]);
    if (text.empty() && messages[i].role == Role::user)
      fail(Fault::usage, "message ", i, " (user): expected text, found none");
    if (!text.empty()) prompt += cat(heading(messages[i].role), ": ", text, "\n\n");
  }
  return cat(prompt, heading(Role::assistant), ":", world_template().reply_beginning(mode));
}

ChatPrompt WorldTemplate::prompt(std::span<const Message> messages, ReplyMode mode) const {
  return {{chat_prompt(messages, mode), false}};
}

ChatPrompt WorldTemplate::next_turn(std::string_view user, ReplyMode mode) const {
  const Message message{Role::user, std::string(user)};
  return {{"\n\n" + chat_prompt({&message, 1}, mode), false}};
}

ChatText chat_text(std::span<const Message> messages) {
  ChatText chat;
  for (const Message& message : messages) {
    const bool answer = message.role == Role::assistant;
    const std::string text =
        answer ? std::string(trimmed(with_plain_newlines(message.text))) : clean_text(message.text);
    if (text.empty() && message.role == Role::system) continue;
    chat.text += cat(heading(message.role), ":");
    const size_t begin = chat.text.size();
    chat.text += cat(" ", text, "\n\n");
    if (answer) chat.answers.push_back({begin, chat.text.size()});
  }
  return chat;
}

}  // namespace deltasane
