// Chats as the World and G1 models of World were trained on them.
//
//     System: S\n\nUser: U\n\nAssistant: A\n\nUser: U\n\nAssistant:
//
// An empty line ends a turn, so texts of the system and the user are cleaned of empty lines; the
// answers of the assistant keep theirs. A prompt never ends in a space or a newline: the model
// writes the space itself, as one token with the word that follows. For the same reason the
// beginning of thinking is left open (" <think", without ">").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"

namespace deltasane {

class WorldTemplate final : public ChatTemplate {
 public:
  std::string_view name() const override { return "world"; }
  // No user's message may be empty; empty messages of the system and the assistant are left out.
  ChatPrompt prompt(std::span<const Message> messages, ReplyMode mode) const override;
  ChatPrompt next_turn(std::string_view user, ReplyMode mode) const override;
  std::string_view reply_beginning(ReplyMode mode) const override;  // what follows "Assistant:"
  ToolFormat tools() const override { return ToolFormat::fenced_json; }
  // Matching "\n\n" as a token would cut answers of several paragraphs, and "\n\n" also hides in
  // longer tokens; so the rule is a text (text/text_stop.h), beside the end of the document.
  std::vector<std::string> stops() const override { return {"\n\nUser:"}; }
};

// \r\n becomes \n, several \n become one, space at both ends goes (ASCII).
std::string clean_text(std::string_view text);
std::string_view trimmed(std::string_view text);  // of ASCII space, at both ends

// The prompt as a text.
std::string chat_prompt(std::span<const Message> messages, ReplyMode mode);

// A whole conversation, as a text to learn from: every message with its role in front and an empty
// line behind it, an answer with its thoughts. Empty messages of the system are left out.
struct ChatText {
  struct Answer {
    size_t begin, end;  // bytes: what follows "Assistant:", with the empty line
  };
  std::string text;
  std::vector<Answer> answers;
};
ChatText chat_text(std::span<const Message> messages);

// Fails unless the last of the messages is the user's.
void check_messages(std::span<const Message> messages);

}  // namespace deltasane
