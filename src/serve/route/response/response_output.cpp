#include "serve/route/response/response_output.h"

#include "serve/keys.h"

namespace deltasane::serve {

void ResponseOutput::tell(std::string_view type, Json more) const {
  more["output_index"] = items_.size();
  event_(type, std::move(more));
}

void ResponseOutput::add(std::string_view type, const std::string& text) {
  if (text.empty()) return;
  if (type_ != type) {
    end("completed");
    begin(type);
  }
  text_ += text;
  Json more{{"item_id", id_}, {"content_index", 0}, {"delta", text}};
  if (type_ == "message") more["logprobs"] = Json::array();
  tell(type_ == "message" ? "response.output_text.delta" : "response.reasoning_text.delta",
       std::move(more));
}

Json ResponseOutput::part() const {
  if (type_ == "reasoning") return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"},
          {"text", text_},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json ResponseOutput::item(std::string_view status) const {
  Json all{{"type", type_}, {"id", id_}, {"status", status}};
  if (type_ == "reasoning")
    all["summary"] = Json::array();
  else
    all["role"] = "assistant";
  all["content"] = status == "in_progress" ? Json::array() : Json::array({part()});
  return all;
}

void ResponseOutput::begin(std::string_view type) {
  type_ = type;
  id_ = random_id(type == "message" ? "msg_" : "rs_");
  text_.clear();
  tell("response.output_item.added", {{"item", item("in_progress")}});
  tell("response.content_part.added", {{"item_id", id_}, {"content_index", 0}, {"part", part()}});
}

void ResponseOutput::end(std::string_view status) {
  if (type_.empty()) return;
  Json whole{{"item_id", id_}, {"content_index", 0}, {"text", text_}};
  if (type_ == "message") whole["logprobs"] = Json::array();
  tell(type_ == "message" ? "response.output_text.done" : "response.reasoning_text.done",
       std::move(whole));
  tell("response.content_part.done", {{"item_id", id_}, {"content_index", 0}, {"part", part()}});
  Json ended = item(status);
  tell("response.output_item.done", {{"item", ended}});
  items_.push_back(std::move(ended));
  type_.clear();
}

// A call is known when it is whole.
void ResponseOutput::add_call(const ToolCall& call) {
  end("completed");
  const std::string arguments = dump(call.arguments);
  Json item{{"type", "function_call"}, {"id", random_id("fc_")}, {"call_id", random_id("call_")},
            {"name", call.name},       {"arguments", ""},        {"status", "in_progress"}};
  tell("response.output_item.added", {{"item", item}});
  item["arguments"] = arguments, item["status"] = "completed";
  tell("response.function_call_arguments.delta", {{"item_id", item["id"]}, {"delta", arguments}});
  tell("response.function_call_arguments.done",
       {{"item_id", item["id"]}, {"name", call.name}, {"arguments", arguments}});
  tell("response.output_item.done", {{"item", item}});
  items_.push_back(std::move(item));
}

void ResponseOutput::finish(bool is_cut) {
  const std::string_view status = is_cut ? "incomplete" : "completed";
  const bool has_answer = type_ == "message" || (type_.empty() && !items_.empty());
  if (!has_answer) {
    end(status);
    begin("message");
  }
  end(status);
}

}  // namespace deltasane::serve
