// Messages of a conversation, as clients write them.
#pragma once

#include <string>
#include <vector>

#include "serve/tool/tool.h"

namespace deltasane::serve {

// "messages": system (also called developer), user, assistant and tool; at least one. The model is
// told of its functions in the system's message, and of the results of calls in the user's. After a
// state, which was told of them already, the calls themselves are not among the messages.
std::vector<Message> read_messages(Fields& fields, const ToolFields& tools, bool after_state = false);
// The same of a list that is at `path`.
std::vector<Message> messages_in(const Json& list, const std::string& path, const ToolFields& tools,
                                 bool after_state = false);

// A text, or parts that are texts: {"type": "text", "text": ...}.
std::string read_content(const Json& content, const std::string& path);
Role read_role(const std::string& role, const std::string& path);

// reasoning_effort and chat_template_kwargs.enable_thinking: "none" and false answer at once,
// anything else thinks. Where neither is there, the server's mode.
ReplyMode read_reply_mode(Fields& fields, ReplyMode otherwise);
ReplyMode reply_mode_of_effort(const std::string& effort, const std::string& path);

}  // namespace deltasane::serve
