// Calls of functions in /v1/responses: as items, as events, in histories and after states.
#include <gtest/gtest.h>

#include <algorithm>

#include "serve/fixture_service.h"
#include "serve/tool/fixture_calls.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::exactly;
using test::MarkedBytes;
using test::ServiceFixture;
using test::two_calls;

struct ToolResponse : testing::Test {
  MarkedBytes tokenizer;
  ServiceFixture fixture{{}, {}, &tokenizer};
  const Json weather = Json::parse(R"({"type":"function","name":"get_weather","description":"The sky.",
      "parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Rome","Paris"]},
      "days":{"type":"integer"}},"required":["city","days"]}})");

  Json body_of(const Json& more) const {
    Json body{{"input", "Rome?"},
              {"max_output_tokens", 400},
              {"temperature", 0},
              {"tools", Json::array({weather})}};
    body.update(more);
    return body;
  }
  int status_of(const Json& more) {
    return fixture.call("POST", "/v1/responses", dump(body_of(more))).status;
  }
  static Json result(const Json& call, const std::string& text) {
    return {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", text}};
  }
};

TEST_F(ToolResponse, CallsAreItems) {
  const Json reply = fixture.post("/v1/responses", body_of({{"grammar", exactly(two_calls)}}));
  EXPECT_EQ(reply["status"], "completed");
  EXPECT_EQ(reply["tools"], Json::array({weather}));
  EXPECT_EQ(reply["tool_choice"], "auto");
  ASSERT_EQ(reply["output"].size(), 3u);
  EXPECT_EQ(reply["output"][0]["content"][0]["text"], "I look.");
  const Json& call = reply["output"][1];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "get_weather");
  EXPECT_EQ(call["arguments"], R"({"city":"Rome","days":2})");
  EXPECT_EQ(call["status"], "completed");
  EXPECT_EQ(reply["output"][2]["arguments"], "{}");
  EXPECT_NE(reply["output"][2]["call_id"], call["call_id"]);
}

// Every item is told from its beginning to its end before the next one begins.
TEST_F(ToolResponse, StreamsTellThemAsEvents) {
  const HttpReply reply = fixture.call(
      "POST", "/v1/responses", dump(body_of({{"grammar", exactly(two_calls)}, {"stream", true}})));
  std::vector<std::string> types;
  std::string arguments;
  Json items = Json::array(), whole;
  int64_t sequence = 0, open = -1;
  for (const Json& event : events_in(reply.body)) {
    EXPECT_EQ(event["sequence_number"], sequence++);
    const std::string type = event["type"];
    if (types.empty() || types.back() != type) types.push_back(type);
    if (event.contains("response")) whole = event["response"];
    if (!event.contains("output_index")) continue;
    EXPECT_EQ(event["output_index"], items.size());
    if (type == "response.output_item.added") {
      EXPECT_EQ(open, -1);
      open = event["output_index"];
      EXPECT_EQ(event["item"]["status"], "in_progress");
    }
    if (type == "response.function_call_arguments.delta")
      arguments += event["delta"].get<std::string>();
    if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event["arguments"], arguments);
      EXPECT_EQ(event["name"], "get_weather");
      arguments.clear();
    }
    if (type == "response.output_item.done") items.push_back(event["item"]), open = -1;
  }
  const std::vector<std::string> of_call{
      "response.output_item.added", "response.function_call_arguments.delta",
      "response.function_call_arguments.done", "response.output_item.done"};
  std::vector<std::string> expected{
      "response.created",           "response.in_progress",       "response.output_item.added",
      "response.content_part.added", "response.output_text.delta", "response.output_text.done",
      "response.content_part.done",  "response.output_item.done"};
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), of_call.begin(), of_call.end());
  expected.emplace_back("response.completed");
  EXPECT_EQ(types, expected);
  EXPECT_EQ(items.size(), 3u);
  EXPECT_EQ(whole["output"], items);
}

// The state reads the results alone; the whole history, sent again, is the same text.
TEST_F(ToolResponse, ResultsGoOnFromTheState) {
  const Json first = fixture.post("/v1/responses", body_of({{"grammar", exactly(two_calls)}}));
  const Json& calls = first["output"];
  const Json results = Json::array({result(calls[1], "sun"), result(calls[2], "rain")});
  const Json next = fixture.post(
      "/v1/responses",
      body_of({{"input", results}, {"previous_response_id", first["id"]}, {"max_output_tokens", 3}}));
  EXPECT_GT(next["usage"]["input_tokens_details"]["cached_tokens"], 500);
  Json history = Json::array({{{"role", "user"}, {"content", "Rome?"}}});
  for (const Json& item : calls) history.push_back(item);
  for (const Json& item : results) history.push_back(item);
  const Json again = fixture.post("/v1/responses", body_of({{"input", history},
                                                            {"store", false},
                                                            {"max_output_tokens", 3}}));
  EXPECT_EQ(again["usage"]["input_tokens"], next["usage"]["input_tokens"]);
  EXPECT_EQ(again["output"][0]["content"][0]["text"], next["output"][0]["content"][0]["text"]);
  // A chat with the same messages has as many tokens.
  Json tool{{"type", "function"}, {"function", weather}};
  tool["function"].erase("type");
  Json messages = Json::array({history[0]}), made = Json::array();
  for (const Json& call : {calls[1], calls[2]})
    made.push_back({{"id", call["call_id"]},
                    {"function", {{"name", call["name"]}, {"arguments", call["arguments"]}}}});
  messages.push_back({{"role", "assistant"}, {"content", "I look."}, {"tool_calls", made}});
  for (const Json& one : results)
    messages.push_back({{"role", "tool"}, {"tool_call_id", one["call_id"]}, {"content", one["output"]}});
  const Json chat = fixture.post("/v1/chat/completions", {{"messages", messages},
                                                          {"tools", Json::array({tool})},
                                                          {"max_tokens", 1}});
  EXPECT_EQ(chat["usage"]["prompt_tokens"], next["usage"]["input_tokens"]);
  // Other functions, or none, are another text: all is read anew.
  const Json other = fixture.post(
      "/v1/responses", {{"input", results}, {"previous_response_id", first["id"]}, {"max_output_tokens", 1}});
  EXPECT_LT(other["usage"]["input_tokens"].get<int>(), next["usage"]["input_tokens"].get<int>() - 500);
  const Json items = Json::parse(
      fixture.call("GET", "/v1/responses/" + next["id"].get<std::string>() + "/input_items").body);
  EXPECT_EQ(items["data"].size(), 6u);  // the question, its answer of three items, two results
}

TEST_F(ToolResponse, OneCallWhereThatIsWantedOrAll) {
  const Json one = fixture.post(
      "/v1/responses", body_of({{"grammar", exactly(two_calls)}, {"parallel_tool_calls", false}}));
  EXPECT_EQ(one["output"].size(), 2u);
  EXPECT_EQ(one["parallel_tool_calls"], false);
  const Json next = fixture.post("/v1/responses",
                                 body_of({{"input", Json::array({result(one["output"][1], "sun")})},
                                          {"previous_response_id", one["id"]},
                                          {"max_output_tokens", 1}}));
  EXPECT_GT(next["usage"]["input_tokens_details"]["cached_tokens"], 500);
  for (const Json& choice : {Json("required"), Json{{"type", "function"}, {"name", "get_weather"}}}) {
    const Json forced = fixture.post(
        "/v1/responses", body_of({{"tool_choice", choice}, {"parallel_tool_calls", false}}));
    ASSERT_EQ(forced["output"].size(), 1u) << forced;
    const Json arguments = Json::parse(forced["output"][0]["arguments"].get<std::string>());
    EXPECT_TRUE(arguments["days"].is_number_integer()) << arguments;
    EXPECT_EQ(forced["tool_choice"], choice);
  }
}

TEST_F(ToolResponse, HostileRequestsAreRefused) {
  const Json call{{"type", "function_call"}, {"call_id", "a"}, {"name", "f"}, {"arguments", "{}"}};
  const auto with = [&](const Json& changed) {
    Json one = call;
    one.update(changed);
    return Json::array({one, result(one, "x")});
  };
  EXPECT_EQ(status_of({{"input", with(Json::object())}, {"max_output_tokens", 1}}), 200);
  for (const Json& input :
       {Json::array({result(call, "x")}), Json::array({call}), with({{"arguments", "["}}),
        with({{"arguments", "[]"}}), with({{"name", nullptr}}), with({{"call_id", ""}}),
        with({{"call_id", 7}}), Json::array({call, {{"type", "function_call_output"}, {"call_id", "a"}}}),
        Json::array({{{"type", "reasoning"}, {"content", 1}}, {{"role", "user"}, {"content", "x"}}}),
        Json::array({{{"type", "web_search_call"}}})})
    EXPECT_EQ(status_of({{"input", input}, {"max_output_tokens", 1}}), 400) << input;
  for (const Json& tools :
       {Json::array({{{"type", "web_search"}}}), Json::array({{{"type", "function"}}}),
        Json::array({{{"type", "function"}, {"name", "a b"}}}), Json::array({weather, weather}),
        Json::array({{{"type", "function"}, {"function", {{"name", "f"}}}}})})
    EXPECT_EQ(status_of({{"tools", tools}, {"max_output_tokens", 1}}), 400) << tools;
  EXPECT_EQ(status_of({{"tool_choice", {{"type", "function"}, {"name", "g"}}}}), 400);
  EXPECT_EQ(status_of({{"tool_choice", "required"}, {"reasoning", {{"effort", "low"}}}}), 400);
  EXPECT_EQ(status_of({{"max_tool_calls", 1}}), 400);
}

// What is refused after a turn has begun leaves the conversation free for the next.
TEST_F(ToolResponse, RefusalsEndTheTurn) {
  const Json conversation = fixture.post("/v1/conversations", Json::object());
  const Json id = conversation["id"];
  for (const Json& bad : {Json{{"input", Json::array({1})}}, Json{{"logit_bias", {{"999999", 1}}}}})
    for (int i = 0; i < 2; ++i) {
      Json more = bad;
      more["conversation"] = id;
      EXPECT_EQ(status_of(more), 400) << bad;
    }
  EXPECT_EQ(status_of({{"conversation", id}, {"max_output_tokens", 1}}), 200);
}

}  // namespace
}  // namespace deltasane::serve
