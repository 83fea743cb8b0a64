#include "serve/wire/event_frame.h"

#include <gtest/gtest.h>

namespace deltasane::serve {
namespace {

// Every letter that JSON writes in another way, and some that it does not.
TEST(EventFrame, IsTheJsonOfTheEvent) {
  std::string all;
  for (int byte = 0; byte < 128; ++byte) all += char(byte);
  const Json event{{"id", "(text)"}, {"choices", {{{"text", EventFrame::gap}, {"index", 3}}}}, {"usage", nullptr}};
  const EventFrame frame(event);
  for (const std::string& text : {all, std::string(), std::string("\u00e9\u2028 (text)"), std::string("\"\\\n")}) {
    Json filled = event;
    filled["choices"][0]["text"] = text;
    EXPECT_EQ(frame.with(text), cat("data: ", dump(filled), "\n\n"));
  }
}

}  // namespace
}  // namespace deltasane::serve
