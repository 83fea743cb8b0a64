// Log probabilities of the text that is given out, and of nothing behind it.
#include <gtest/gtest.h>

#include "base/json/array_at.h"
#include "serve/fixture_service.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::ServiceFixture;

Json body_of(const Json& stop, int tokens = 12) {
  return {{"prompt", "User: 3 + 4\n\nAssistant:"}, {"max_tokens", tokens}, {"temperature", 0},
          {"stop", stop}, {"logprobs", 2}};
}

std::string joined(const Json& tokens) {
  std::string text;
  for (const Json& token : tokens) text += token.get<std::string>();
  return text;
}

// The lists of all events, and their texts.
Json streamed(ServiceFixture& fixture, Json body) {
  body["stream"] = true;
  Json whole{{"text", ""}, {"tokens", Json::array()}, {"text_offset", Json::array()},
             {"token_logprobs", Json::array()}, {"top_logprobs", Json::array()}};
  for (const Json& event : events_in(fixture.call("POST", "/v1/completions", dump(body)).body)) {
    if (event == "[DONE]") break;
    const Json& choice = event["choices"][0];
    whole["text"] = whole["text"].get<std::string>() + choice["text"].get<std::string>();
    if (choice["logprobs"].is_null()) continue;
    for (const auto& [name, list] : choice["logprobs"].items())
      for (const Json& entry : list) array_at(whole, name.c_str()).push_back(entry);
    // No token is told before its text, or a part of it.
    EXPECT_TRUE(whole["text"].get<std::string>().starts_with(joined(whole["tokens"])));
  }
  return whole;
}

TEST(LogProbabilities, EndBeforeTheStopText) {
  ServiceFixture fixture;
  const Json free = fixture.post("/v1/completions", body_of(Json::array()))["choices"][0];
  const std::string text = free["text"];
  ASSERT_EQ(text.size(), 12u);
  ASSERT_EQ(joined(free["logprobs"]["tokens"]), text);
  for (const size_t length : {size_t{1}, size_t{2}, size_t{5}}) {
    const Json body = body_of(text.substr(6, length));
    const Json choice = fixture.post("/v1/completions", body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    const std::string kept = choice["text"];
    EXPECT_TRUE(text.starts_with(kept));
    const Json& lists = choice["logprobs"];
    EXPECT_EQ(joined(lists["tokens"]), kept);
    for (const char* const name : {"token_logprobs", "top_logprobs", "text_offset"})
      EXPECT_EQ(lists[name].size(), kept.size()) << name;
    const Json events = streamed(fixture, body);
    EXPECT_EQ(events["text"], kept);
    for (const auto& [name, list] : lists.items()) EXPECT_EQ(events[name], list) << name;
  }
}

// Text that might have become a stop text is given out at the end, with what is said of its tokens.
TEST(LogProbabilities, OfTextThatWasHeldBackAreAllThere) {
  ServiceFixture fixture;
  const std::string text =
      fixture.post("/v1/completions", body_of(Json::array()))["choices"][0]["text"];
  const Json body = body_of({text.substr(3) + "?", text.substr(0, 2) + "??"});
  const Json choice = fixture.post("/v1/completions", body)["choices"][0];
  EXPECT_EQ(choice["text"], text);
  EXPECT_EQ(joined(choice["logprobs"]["tokens"]), text);
  const Json events = streamed(fixture, body);
  EXPECT_EQ(events["text"], text);
  for (const auto& [name, list] : choice["logprobs"].items()) EXPECT_EQ(events[name], list) << name;
}

TEST(LogProbabilities, OfAnAnswerEndBeforeTheStopText) {
  ServiceFixture fixture;
  Json body{{"messages", {{{"role", "user"}, {"content", "3 + 4"}}}}, {"temperature", 0},
            {"max_tokens", 40}, {"logprobs", true}, {"top_logprobs", 1}};
  const Json choice = fixture.post("/v1/chat/completions", body)["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "stop");
  const auto joined_content = [](const Json& scores) {
    std::string text;
    for (const Json& one : scores) text += one["token"].get<std::string>();
    return text;
  };
  const Json& scores = choice["logprobs"]["content"];
  // What stands before the answer is space.
  EXPECT_TRUE(joined_content(scores).ends_with(choice["message"]["content"].get<std::string>()));
  body["stream"] = true;
  Json told = Json::array();
  for (const Json& event : events_in(fixture.call("POST", "/v1/chat/completions", dump(body)).body)) {
    if (event == "[DONE]" || event["choices"][0]["logprobs"].is_null()) continue;
    for (const Json& one : event["choices"][0]["logprobs"]["content"]) told.push_back(one);
  }
  EXPECT_EQ(told, scores);
}

}  // namespace
}  // namespace deltasane::serve
