// Messages of a conversation, as clients write them.
#pragma once

#include <string>
#include <vector>

#include "serve/wire/body.h"
#include "text/chat/chat_template.h"

namespace deltasane::serve {

// "messages": system (also called developer), user and assistant; at least one.
std::vector<Message> read_messages(Fields& fields);

// A text, or parts that are texts: {"type": "text", "text": ...}.
std::string read_content(const Json& content, const std::string& path);
Role read_role(const std::string& role, const std::string& path);

// reasoning_effort and chat_template_kwargs.enable_thinking: "none" and false answer at once,
// anything else thinks. Where neither is there, the server's mode.
ReplyMode read_reply_mode(Fields& fields, ReplyMode otherwise);
ReplyMode reply_mode_of_effort(const std::string& effort, const std::string& path);

}  // namespace deltasane::serve
