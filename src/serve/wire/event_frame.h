// A server-sent event of which only one text changes: written as JSON once, then filled in. Events
// come for every token of every client.
#pragma once

#include <string>
#include <string_view>

#include "serve/wire/body.h"

namespace deltasane::serve {

// As `dump` writes a text, without the quotes. The text is UTF-8.
void append_json_text(std::string_view text, std::string& to);

class EventFrame {
 public:
  static constexpr std::string_view gap = "(text)";  // stands for the text in `event`

  explicit EventFrame(const Json& event);  // the last gap counts
  std::string with(std::string_view text) const;

 private:
  std::string before_, after_;
};

}  // namespace deltasane::serve
