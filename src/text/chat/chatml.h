// ChatML, with and without thoughts.
//
//     <|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n
//
// An answer may begin with thoughts, <think>\n...\n</think>\n\n. Thoughts of earlier answers are left
// out of the prompt, but for those since the user's last question: between calls of functions the
// model goes on thinking. Templates differ in how an answer begins unless a caller says so
// (Thoughts), in whether space at both ends of a message is dropped, and in how functions are called.
#pragma once

#include <memory>

#include "text/chat/chat_template.h"

namespace deltasane {

class ChatMl final : public ChatTemplate {
 public:
  // How an answer begins in the mode `plain`.
  enum class Thoughts {
    none,    // the template knows no thoughts, and other modes are rejected
    free,    // as the model likes
    open,    // <think>\n
    closed,  // <think>\n\n</think>\n\n
  };
  ChatMl(Thoughts plain, bool trims, ToolFormat tools = ToolFormat::none)
      : plain_(plain), trims_(trims), tools_(tools) {}

  std::string_view name() const override;
  ChatPrompt prompt(std::span<const Message> messages, ReplyMode mode) const override;
  ChatPrompt next_turn(std::string_view user, ReplyMode mode) const override;
  std::string_view reply_beginning(ReplyMode mode) const override;
  ReplyMode direct_mode() const override;
  ToolFormat tools() const override { return tools_; }

  Thoughts plain() const { return plain_; }
  bool trims() const { return trims_; }

 private:
  void append(const Message& message, bool with_thoughts, ChatPrompt& prompt) const;

  Thoughts plain_;
  bool trims_;
  ToolFormat tools_;
};

// From the text of a Jinja template, by its features; nothing is executed. Null: it is no ChatML.
std::unique_ptr<ChatMl> recognized_chatml(std::string_view jinja);

}  // namespace deltasane
