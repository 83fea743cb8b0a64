// Items of responses and conversations: messages, thoughts, calls of functions and their results, as
// clients write and get them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/tool/tool.h"

namespace deltasane::serve {

Json message_item(std::string_view role, std::string_view type, const std::string& text);

// The field metadata; empty where there is none.
Json read_metadata(Fields& fields);

// A text, which is the user's, or a list of items. `before`: those that a call's result may belong to.
Json read_items(const Json& input, const std::string& path, ToolFormat format, const Json& before);

bool is_result(const Json& item);  // of a call
bool is_users(const Json& item);   // the user's message, or a result

// The items as a chat has them. What an assistant thought, said and called in turn is one message.
std::vector<Message> messages_of_items(const Json& items, const std::string& instructions,
                                       const ToolFields& tools);
// Of items that follow what was read: the user's message, or all results of calls.
std::string next_turn_text(const Json& items, ToolFormat format);

}  // namespace deltasane::serve
