#include "text/chat/chatml.h"

#include "base/error.h"
#include "text/chat/world_chat.h"

namespace deltasane {
namespace {

constexpr std::string_view turn_begin = "<|im_start|>", turn_end = "<|im_end|>";
constexpr std::string_view open_thoughts = "<think>\n", closed_thoughts = "<think>\n\n</think>\n\n";

std::string_view role_name(Role role) {
  return role == Role::system ? "system" : role == Role::user ? "user" : "assistant";
}

bool is_question(const Message& message) {
  const std::string_view text = trimmed(message.text);
  return message.role == Role::user &&
         !(text.starts_with(tool_result_begin) && text.ends_with(tool_result_end));
}

// Templates with parameters in tags show an answer's thoughts where there are none, too.
bool always_thinks(ToolFormat tools) { return tools == ToolFormat::tagged_parameters; }

void add_text(ChatPrompt& prompt, std::string_view text) {
  if (!prompt.empty() && !prompt.back().special)
    prompt.back().text += text;
  else
    prompt.push_back({std::string(text), false});
}

void add_special(ChatPrompt& prompt, std::string_view name) {
  prompt.push_back({std::string(name), true});
}

}  // namespace

std::string_view ChatMl::name() const {
  return plain_ == Thoughts::none ? "chatml" : "chatml-think";
}

std::string_view ChatMl::reply_beginning(ReplyMode mode) const {
  if (mode != ReplyMode::plain && plain_ == Thoughts::none)
    fail(Fault::usage, "reply mode: expected plain, the only one of the chat template ", name(),
         ", found ", name_of(mode));
  if (mode == ReplyMode::think) return open_thoughts;
  if (mode == ReplyMode::skip_think) return closed_thoughts;
  if (plain_ == Thoughts::open) return open_thoughts;
  return plain_ == Thoughts::closed ? closed_thoughts : std::string_view();
}

ReplyMode ChatMl::direct_mode() const {
  const bool begins_with_thoughts = plain_ == Thoughts::open || plain_ == Thoughts::closed;
  return begins_with_thoughts ? ReplyMode::skip_think : ReplyMode::plain;
}

void ChatMl::append(const Message& message, bool with_thoughts, ChatPrompt& prompt) const {
  std::string text = message.text;
  if (message.role == Role::assistant) {
    text = clean_answer(text);
    if (!message.calls.empty()) text += cat(text.empty() ? "" : "\n\n", message.calls);
    if (with_thoughts) text = cat(open_thoughts, trimmed(message.thoughts), "\n</think>\n\n", text);
  } else if (trims_) {
    text = trimmed(text);
  }
  add_special(prompt, turn_begin);
  add_text(prompt, cat(role_name(message.role), "\n", text));
  add_special(prompt, turn_end);
  add_text(prompt, "\n");
}

ChatPrompt ChatMl::prompt(std::span<const Message> messages, ReplyMode mode) const {
  check_messages(messages);
  size_t question = messages.size();  // the last one of the user's that is no result of a function
  while (question > 0 && !is_question(messages[question - 1])) --question;
  ChatPrompt prompt;
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool may_think = plain_ != Thoughts::none && i >= question;
    append(messages[i], may_think && (always_thinks(tools_) || !messages[i].thoughts.empty()), prompt);
  }
  add_special(prompt, turn_begin);
  add_text(prompt, cat(role_name(Role::assistant), "\n", reply_beginning(mode)));
  return prompt;
}

ChatPrompt ChatMl::next_turn(std::string_view user, ReplyMode mode) const {
  ChatPrompt whole;
  add_special(whole, turn_end);
  add_text(whole, "\n");
  const Message message{Role::user, std::string(user)};
  for (PromptPiece& piece : prompt({&message, 1}, mode)) whole.push_back(std::move(piece));
  return whole;
}

std::unique_ptr<ChatMl> recognized_chatml(std::string_view jinja) {
  const auto has = [&](std::string_view part) { return jinja.find(part) != jinja.npos; };
  if (!has(turn_begin) || !has(turn_end) || !has("assistant")) return nullptr;
  // A line end stands in a template as \n or as itself, in either kind of quotes.
  const bool opens = has("'<think>\\n'") || has("'<think>\n'") || has("\"<think>\\n\"") ||
                     has("assistant\\n<think>\\n'") || has("assistant\n<think>\n");
  // What the switch does where nobody sets it: only a template that asks whether it is set has another
  // answer for that case.
  const bool asks_for_true = has("enable_thinking is true");
  const bool is_on_unset = has("enable_thinking is undefined or enable_thinking is true");
  auto plain = ChatMl::Thoughts::none;
  if (has("enable_thinking is defined and enable_thinking is true"))
    plain = ChatMl::Thoughts::closed;
  else if (asks_for_true && !is_on_unset)
    plain = ChatMl::Thoughts::free;
  else if (opens)
    plain = ChatMl::Thoughts::open;
  else if (has("enable_thinking"))
    plain = ChatMl::Thoughts::free;
  auto tools = ToolFormat::none;
  if (has("<tool_call>") && has("<function=") && has("<parameter="))
    tools = ToolFormat::tagged_parameters;
  else if (has("<tool_call>") && has("<function-name>") && has("<args-json-object>"))
    tools = ToolFormat::tagged_json;
  return std::make_unique<ChatMl>(plain, has("|trim") || has("| trim"), tools);
}

}  // namespace deltasane
