#include "serve/wire/response_items.h"

#include <algorithm>
#include <set>

#include "base/json/array_at.h"
#include "base/printable.h"
#include "serve/keys.h"
#include "serve/wire/chat_fields.h"

namespace deltasane::serve {
namespace {

std::string type_of(const Json& item) { return item.value("type", std::string("message")); }

std::string required_text(Fields& item, const char* name) {
  const auto text = item.text(name);
  if (!text || text->empty()) refuse_field(item.path_of(name), "expected a text, found none");
  return *text;
}

Json read_call(Fields& item) {
  const std::string arguments = item.text("arguments").value_or("{}");
  try {
    if (!read_json(arguments).is_object()) refuse_field("", "expected an object");
  } catch (const Refusal& refusal) {
    refuse_field(item.path_of("arguments"), cat("expected the text of a JSON object: ", refusal.what()));
  }
  return {{"type", "function_call"},
          {"id", random_id("fc_")},
          {"call_id", required_text(item, "call_id")},
          {"name", required_text(item, "name")},
          {"arguments", arguments},
          {"status", "completed"}};
}

Json read_result(Fields& item, const std::set<std::string>& called) {
  const std::string id = required_text(item, "call_id");
  if (!called.contains(id))
    refuse_field(item.path_of("call_id"), "expected the id of a call before it");
  const Json* const output = item.find("output");
  if (!output) refuse_field(item.path_of("output"), "expected a text, found none");
  return {{"type", "function_call_output"},
          {"id", random_id("fco_")},
          {"call_id", id},
          {"output", read_content(*output, item.path_of("output"))},
          {"status", "completed"}};
}

// Thoughts that clients send back with an answer.
Json read_thoughts(Fields& item) {
  std::string text;
  if (const Json* const content = item.find("content")) {
    if (!content->is_array()) refuse_field(item.path_of("content"), "expected a list of parts");
    for (size_t i = 0; i < content->size(); ++i) {
      Fields part((*content)[i], cat(item.path_of("content"), "[", i, "]"));
      text += part.text("text").value_or("");
    }
  }
  return {{"type", "reasoning"},
          {"id", random_id("rs_")},
          {"status", "completed"},
          {"summary", Json::array()},
          {"content", Json::array({{{"type", "reasoning_text"}, {"text", text}}})}};
}

Json read_message(Fields& item) {
  const std::string role = item.text("role").value_or("");
  read_role(role, item.path_of("role"));
  const Json* const content = item.find("content");
  if (!content) refuse_field(item.path_of("content"), "expected a text, found none");
  return message_item(role, role == "assistant" ? "output_text" : "input_text",
                      read_content(*content, item.path_of("content")));
}

}  // namespace

Json message_item(std::string_view role, std::string_view type, const std::string& text) {
  return {{"type", "message"},
          {"id", random_id("msg_")},
          {"status", "completed"},
          {"role", role},
          {"content", Json::array({{{"type", type}, {"text", text}}})}};
}

Json read_metadata(Fields& fields) {
  const Json* const metadata = fields.find("metadata");
  if (!metadata) return Json::object();
  if (!metadata->is_object() || metadata->size() > 16 || dump(*metadata).size() > 16384)
    refuse_field("metadata", "expected an object of at most 16 texts");
  return *metadata;
}

Json read_items(const Json& input, const std::string& path, ToolFormat format, const Json& before) {
  if (input.is_string())
    return Json::array({message_item("user", "input_text", input.get<std::string>())});
  if (!input.is_array()) refuse_field(path, "expected a text or a list of items");
  std::set<std::string> called;
  for (const Json& one : before)
    if (type_of(one) == "function_call") called.insert(one["call_id"].get<std::string>());
  Json items = Json::array();
  for (const Json& one : input) {
    Fields item(one, cat(path, "[", items.size(), "]"));
    const std::string type = item.text("type").value_or("message");
    const bool is_of_call = type == "function_call" || type == "function_call_output";
    if (is_of_call && format == ToolFormat::none)
      refuse_field(item.path_of("type"),
                   "expected message: the chat template has no calls of functions", "unsupported");
    if (type == "function_call") {
      items.push_back(read_call(item));
      called.insert(items.back()["call_id"].get<std::string>());
    } else if (type == "function_call_output") {
      items.push_back(read_result(item, called));
    } else if (type == "reasoning") {
      items.push_back(read_thoughts(item));
    } else if (type == "message") {
      items.push_back(read_message(item));
    } else {
      refuse_field(item.path_of("type"),
                   cat("expected message, reasoning, function_call or function_call_output, found ",
                       printable(type)),
                   "unsupported");
    }
  }
  return items;
}

bool is_result(const Json& item) { return type_of(item) == "function_call_output"; }

bool is_users(const Json& item) {
  return is_result(item) || (type_of(item) == "message" && item["role"] == "user");
}

std::vector<Message> messages_of_items(const Json& items, const std::string& instructions,
                                       const ToolFields& tools) {
  Json messages = Json::array();
  if (!instructions.empty())
    messages.push_back({{"role", "system"}, {"content", instructions}});
  // What the assistant did last, if nobody else has come since.
  Json* answer = nullptr;
  const auto own = [&]() -> Json& {
    if (!answer) {
      messages.push_back({{"role", "assistant"}, {"content", ""}});
      answer = &messages.back();
    }
    return *answer;
  };
  for (const Json& item : items) {
    const std::string type = type_of(item);
    if (type == "reasoning") {
      own()["reasoning_content"] = item["content"][0]["text"];
    } else if (type == "function_call") {
      array_at(own(), "tool_calls")
          .push_back({{"id", item["call_id"]},
                      {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
    } else if (is_result(item)) {
      answer = nullptr;
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", item["output"]}});
    } else if (item["role"] == "assistant" && answer && (*answer)["content"] == "") {
      (*answer)["content"] = read_content(item["content"], "content");
    } else {
      answer = nullptr;
      messages.push_back(
          {{"role", item["role"]}, {"content", read_content(item["content"], "content")}});
      if (item["role"] == "assistant") answer = &messages.back();
    }
  }
  return messages_in(messages, "input", tools);
}

std::string next_turn_text(const Json& items, ToolFormat format) {
  if (!is_result(items[0])) return read_content(items[0]["content"], "input");
  std::vector<std::string> results;
  for (const Json& item : items) results.push_back(item["output"].get<std::string>());
  return results_text(format, results);
}

}  // namespace deltasane::serve
