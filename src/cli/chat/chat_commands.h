// What can be typed in a conversation instead of a message: /help lists it.
#pragma once

#include <string>
#include <vector>

#include "cli/chat/conversation.h"

namespace deltasane::cli {

struct ChatSession {
  Conversation& conversation;
  std::string model_name;  // for state files
  SaneUse sane;
  std::function<void()> retry{};
  Answer last{};  // the last answer, for /tokens
};

enum class Afterwards { next_line, leave };

// Whether a line is a command: one line, a slash and a letter first.
bool is_chat_command(const std::string& line);
Afterwards run_chat_command(const std::string& line, ChatSession& session);
std::vector<std::string> chat_command_names();
std::string chat_command_help();  // a line for each

}  // namespace deltasane::cli
