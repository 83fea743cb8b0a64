// What a response has written so far, as items in the order they came: thoughts, messages and calls of
// functions. Where it is streamed, each is told as events that begin, continue and end it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "serve/tool/tool.h"

namespace deltasane::serve {

class ResponseOutput {
 public:
  using Event = std::function<void(std::string_view type, Json more)>;
  explicit ResponseOutput(Event event) : event_(std::move(event)) {}

  void add_thoughts(const std::string& text) { add("reasoning", text); }
  void add_text(const std::string& text) { add("message", text); }
  void add_call(const ToolCall& call);
  // Ends the last item: all is written, or as much as was allowed. There is always one.
  void finish(bool is_cut);

  const Json& items() const { return items_; }  // those that have ended

 private:
  void add(std::string_view type, const std::string& text);
  void begin(std::string_view type);
  void end(std::string_view status);
  Json item(std::string_view status) const;
  Json part() const;
  void tell(std::string_view type, Json more) const;

  Event event_;
  Json items_ = Json::array();
  std::string type_, id_, text_;  // of the item that is being written; no type: none is
};

}  // namespace deltasane::serve
