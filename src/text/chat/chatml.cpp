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

void ChatMl::append(const Message& message, ChatPrompt& prompt) const {
  std::string text = message.text;
  if (message.role == Role::assistant)
    text = clean_answer(text);
  else if (trims_)
    text = trimmed(text);
  add_special(prompt, turn_begin);
  add_text(prompt, cat(role_name(message.role), "\n", text));
  add_special(prompt, turn_end);
  add_text(prompt, "\n");
}

ChatPrompt ChatMl::prompt(std::span<const Message> messages, ReplyMode mode) const {
  check_messages(messages);
  ChatPrompt prompt;
  for (const Message& message : messages) append(message, prompt);
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
  auto plain = ChatMl::Thoughts::none;
  if (has("enable_thinking is true"))
    plain = ChatMl::Thoughts::closed;
  else if (opens)
    plain = ChatMl::Thoughts::open;
  else if (has("enable_thinking"))
    plain = ChatMl::Thoughts::free;
  return std::make_unique<ChatMl>(plain, has("|trim") || has("| trim"));
}

}  // namespace deltasane
