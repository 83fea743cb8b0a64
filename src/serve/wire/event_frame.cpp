#include "serve/wire/event_frame.h"

namespace deltasane::serve {

void append_json_text(std::string_view text, std::string& to) {
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= ' ' && letter != '"' && letter != '\\') {
      to += letter;
      continue;
    }
    to += '\\';
    switch (letter) {
      case '"':
      case '\\':
        to += letter;
        break;
      case '\n':
        to += 'n';
        break;
      case '\r':
        to += 'r';
        break;
      case '\t':
        to += 't';
        break;
      case '\b':
        to += 'b';
        break;
      case '\f':
        to += 'f';
        break;
      default:
        to += "u00";
        to += "01"[byte >> 4];
        to += "0123456789abcdef"[byte & 15];
    }
  }
}

EventFrame::EventFrame(const Json& event) : before_(cat("data: ", dump(event), "\n\n")) {
  const size_t at = before_.rfind(gap);
  require(at != before_.npos, "a frame has a gap");
  after_ = before_.substr(at + gap.size());
  before_.erase(at);
}

std::string EventFrame::with(std::string_view text) const {
  std::string frame;
  frame.reserve(before_.size() + text.size() + text.size() / 8 + 16 + after_.size());
  frame += before_;
  append_json_text(text, frame);
  frame += after_;
  return frame;
}

}  // namespace deltasane::serve
