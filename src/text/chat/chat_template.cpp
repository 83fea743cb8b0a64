#include "text/chat/chat_template.h"

#include "base/error.h"
#include "text/chat/chatml.h"
#include "text/chat/world_chat.h"

namespace deltasane {
namespace {

void append_pieces(const ChatPrompt& prompt, std::string_view name, const Tokenizer& tokenizer,
                   std::vector<int32_t>& ids) {
  for (const PromptPiece& piece : prompt) {
    if (!piece.special) {
      tokenizer.append_encoded(piece.text, ids);
      continue;
    }
    const auto id = tokenizer.special_token(piece.text);
    if (!id)
      fail(Fault::usage, "chat template ", name, ": expected a tokenizer with the special token ",
           piece.text, ", found ", tokenizer.name(), " without it; choose another template of ",
           chat_template_names);
    ids.push_back(*id);
  }
}

}  // namespace

std::string_view name_of(ReplyMode mode) {
  return mode == ReplyMode::plain ? "plain" : mode == ReplyMode::think ? "think" : "fast-think";
}

ReplyMode reply_mode_named(std::string_view name) {
  for (const ReplyMode mode : {ReplyMode::plain, ReplyMode::think, ReplyMode::skip_think})
    if (name == name_of(mode)) return mode;
  fail(Fault::usage, "reply mode: expected plain, think or fast-think, found '", name, "'");
}

void ChatTemplate::append_prompt(std::span<const Message> messages, ReplyMode mode,
                                 const Tokenizer& tokenizer, std::vector<int32_t>& ids) const {
  const std::span<const int32_t> start = tokenizer.document_start();
  ids.insert(ids.end(), start.begin(), start.end());
  append_pieces(prompt(messages, mode), name(), tokenizer, ids);
}

void ChatTemplate::append_next_turn(std::string_view user, ReplyMode mode,
                                    const Tokenizer& tokenizer, std::vector<int32_t>& ids) const {
  append_pieces(next_turn(user, mode), name(), tokenizer, ids);
}

std::unique_ptr<ChatTemplate> chat_template_named(std::string_view name) {
  if (name == "world") return std::make_unique<WorldTemplate>();
  if (name == "chatml") return std::make_unique<ChatMl>(ChatMl::Thoughts::none, false);
  if (name == "chatml-think") return std::make_unique<ChatMl>(ChatMl::Thoughts::open, true);
  fail(Fault::usage, "chat template: expected ", chat_template_names, ", found '", name, "'");
}

std::unique_ptr<ChatTemplate> chat_template_of(const Tokenizer& tokenizer) {
  if (tokenizer.name() == "world" || tokenizer.name() == "byte")
    return std::make_unique<WorldTemplate>();
  return recognized_chatml(tokenizer.chat_template());
}

}  // namespace deltasane
