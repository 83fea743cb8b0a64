// Chats as the World and G1 models of World were trained on them.
//
//     System: S\n\nUser: U\n\nAssistant: A\n\nUser: U\n\nAssistant:
//
// An empty line ends a turn, so texts of the system and the user are cleaned of empty lines; the
// answers of the assistant keep theirs. A prompt never ends in a space or a newline: the model
// writes the space itself, as one token with the word that follows. For the same reason the
// beginning of thinking is left open (" <think", without ">").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

enum class Role { system, user, assistant };

struct Message {
  Role role;
  std::string text;
};

// How the answer begins.
enum class ReplyMode {
  plain,       // as the model likes
  think,       // with thoughts: " <think"
  skip_think,  // with thoughts that are already over: " <think>\n</think"
};

std::string_view name_of(ReplyMode mode);           // "plain", "think", "fast-think"
ReplyMode reply_mode_named(std::string_view name);  // anything else fails
std::string_view reply_beginning(ReplyMode mode);   // what follows "Assistant:"

// \r\n becomes \n, several \n become one, space at both ends goes (ASCII).
std::string clean_text(std::string_view text);

// An answer as it stands in a history: \r\n becomes \n, thoughts up to the last </think> and space
// at both ends go, empty lines stay.
std::string clean_answer(std::string_view text);

// The prompt for the next answer in a conversation. The last message must be the user's, and no
// user's message may be empty; empty messages of the system and the assistant are left out.
std::string chat_prompt(std::span<const Message> messages, ReplyMode mode);

// The prompt that goes on where the state already holds the conversation, up to the last letter of
// an answer that was not followed by anything.
std::string next_turn(std::string_view user, ReplyMode mode);

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

// What ends an answer. Matching "\n\n" as a token would cut answers of several paragraphs, and
// "\n\n" also hides in longer tokens; so the rule is one token and one text (text/text_stop.h).
struct StopRules {
  int32_t token = 0;  // end of document
  std::vector<std::string> texts{"\n\nUser:"};
};

}  // namespace deltasane
