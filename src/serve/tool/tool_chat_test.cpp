// Calls of functions over the wire: in replies, in streams, in histories, and from strangers.
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

Json body_of(const Json& more) {
  Json body = Json::parse(R"({"messages":[{"role":"user","content":"Rome?"}],"max_tokens":400,
    "temperature":0,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{
      "type":"object","properties":{"city":{"type":"string","enum":["Rome","Paris"]},
      "days":{"type":"integer"}},"required":["city","days"]}}}]})");
  body.update(more);
  return body;
}

TEST(ToolChat, TellsCallsInRepliesAndStreams) {
  const MarkedBytes tokenizer;
  ServiceFixture fixture({}, {}, &tokenizer);
  Json body = body_of({{"grammar", exactly(two_calls)}});
  const Json reply = fixture.post("/v1/chat/completions", body);
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I look.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2u);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], R"({"city":"Rome","days":2})");
  EXPECT_NE(call["id"], choice["message"]["tool_calls"][1]["id"]);
  body["stream"] = true;
  std::string text, finish;
  Json calls = Json::array();
  for (const Json& event : events_in(fixture.call("POST", "/v1/chat/completions", dump(body)).body)) {
    if (event.is_string()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) text += delta["content"].get<std::string>();
    if (delta.contains("tool_calls"))
      for (const Json& one : delta["tool_calls"]) {
        EXPECT_EQ(one["index"], calls.size());
        calls.push_back(one["function"]);
      }
    if (!event["choices"][0]["finish_reason"].is_null()) finish = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(text, "I look.");
  EXPECT_EQ(finish, "tool_calls");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0], call["function"]);
}

TEST(ToolChat, EndsAfterOneCallWhereThatIsWanted) {
  const MarkedBytes tokenizer;
  ServiceFixture fixture({}, {}, &tokenizer);
  const Json body = body_of({{"grammar", exactly(two_calls)},
                             {"parallel_tool_calls", false},
                             {"return_state", true}});
  const Json reply = fixture.post("/v1/chat/completions", body);
  EXPECT_EQ(reply["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "tool_calls");
  // Its state goes on after the call.
  const KeptState kept =
      fixture.service->states.find({}, reply["deltasane"]["state_out"].get<std::string>());
  const std::vector<int32_t> end = tokenizer.encode("</tool_call>");
  ASSERT_GE(kept.unread.size(), end.size());
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), kept.unread.rbegin()));
  const Json next = fixture.post(
      "/v1/chat/completions",
      {{"state", reply["deltasane"]["state_out"]}, {"max_tokens", 3},
       {"messages", {{{"role", "tool"}, {"tool_call_id", "x"}, {"content", "sun"}}}}});
  EXPECT_GT(next["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST(ToolChat, AForcedCallKeepsToItsSchema) {
  const MarkedBytes tokenizer;
  ServiceFixture marked({}, {}, &tokenizer), plain;
  for (ServiceFixture* const fixture : {&marked, &plain})
    for (const Json& choice :
         {Json("required"), Json{{"type", "function"}, {"function", {{"name", "get_weather"}}}}})
      for (int seed = 0; seed < 2; ++seed) {
        const Json reply = fixture->post(
            "/v1/chat/completions",
            body_of({{"tool_choice", choice}, {"temperature", 1}, {"seed", seed},
                     {"parallel_tool_calls", false}}));
        const Json& message = reply["choices"][0]["message"];
        ASSERT_TRUE(message.contains("tool_calls")) << reply;
        EXPECT_TRUE(message["content"].is_null());
        const Json arguments =
            Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>());
        EXPECT_TRUE(arguments["city"] == "Rome" || arguments["city"] == "Paris") << arguments;
        EXPECT_TRUE(arguments["days"].is_number_integer()) << arguments;
      }
}

TEST(ToolChat, ACallThatIsCutOffIsText) {
  const MarkedBytes tokenizer;
  ServiceFixture fixture({}, {}, &tokenizer);
  const Json reply = fixture.post("/v1/chat/completions",
                                  body_of({{"grammar", exactly(two_calls)}, {"max_tokens", 60}}));
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["choices"][0]["message"]["content"], two_calls.substr(0, 60));
  EXPECT_FALSE(reply["choices"][0]["message"].contains("tool_calls"));
}

// An answer that must be a call is none where it is cut off, and no text.
TEST(ToolChat, ACallThatMustBeAndIsCutOffIsDropped) {
  const MarkedBytes tokenizer;
  ServiceFixture fixture({}, {}, &tokenizer);
  for (const int tokens : {3, 20}) {
    const Json body = body_of({{"tool_choice", "required"}, {"max_tokens", tokens}});
    const Json reply = fixture.post("/v1/chat/completions", body);
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(reply["choices"][0]["message"]["content"], "") << reply;
    EXPECT_FALSE(reply["choices"][0]["message"].contains("tool_calls"));
  }
}

TEST(ToolChat, RefusesHostileRequests) {
  ServiceFixture fixture;
  const std::string name = R"({"type":"function","function":{"name":"f"}})";
  for (const std::string& bad :
       {std::string(R"("tools":{})"), std::string(R"("tools":[1])"), std::string(R"("tools":[{}])"),
        std::string(R"("tools":[{"type":"web_search"}])"), std::string(R"("tools":[{"type":"function"}])"),
        std::string(R"("tools":[{"type":"function","function":{}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"a b"}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"<|im_end|>"}}])"),
        cat(R"("tools":[{"type":"function","function":{"name":")", std::string(65, 'a'), R"("}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string"}}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"f","parameters":{"properties":[]}}}])"),
        std::string(R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"pattern":"a"}}}])"),
        cat(R"("tools":[)", name, ",", name, "]"), cat(R"("tools":[)", name, R"(],"tool_choice":"f")"),
        cat(R"("tools":[)", name, R"(],"tool_choice":{"type":"function","function":{"name":"g"}})"),
        cat(R"("tools":[)", name, R"(],"tool_choice":{"type":"function"})"),
        cat(R"("tools":[)", name, R"(],"tool_choice":"required","response_format":{"type":"json_object"})"),
        cat(R"("tools":[)", name, R"(],"tool_choice":"required","reasoning_effort":"low")"),
        std::string(R"("tool_choice":"required")"), std::string(R"("functions":[{"name":"f"}])"),
        std::string(R"("function_call":"f")"), std::string(R"("parallel_tool_calls":1)")})
    EXPECT_EQ(fixture.call("POST", "/v1/chat/completions",
                           cat(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1,)", bad, "}"))
                  .status,
              400)
        << bad;
  const std::string call = R"({"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]})";
  for (const std::string& bad :
       {std::string(R"({"role":"tool","content":"x"})"),
        std::string(R"({"role":"tool","tool_call_id":"a","content":"x"})"),
        cat(call, R"(,{"role":"tool","tool_call_id":"b","content":"x"})"),
        cat(call, R"(,{"role":"tool","tool_call_id":"a"})"),
        cat(call, R"(,{"role":"tool","tool_call_id":"a","content":[{"type":"image_url"}]})"), call,
        std::string(R"({"role":"assistant","tool_calls":{}},{"role":"user","content":"x"})"),
        std::string(R"({"role":"assistant","tool_calls":[{}]},{"role":"user","content":"x"})"),
        std::string(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"["}}]},{"role":"user","content":"x"})"),
        cat(R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":)",
            std::string(1000, '['), R"("}}]},{"role":"user","content":"x"})"),
        std::string(R"({"role":"function","name":"f","content":"x"})")})
    EXPECT_EQ(fixture.call("POST", "/v1/chat/completions",
                           cat(R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},)", bad, "]}"))
                  .status,
              400)
        << bad;
  const std::string tools = cat(R"("tools":[)", name, R"(],"max_tokens":1)");
  EXPECT_EQ(fixture.call("POST", "/v1/completions", cat(R"({"prompt":"a",)", tools, "}")).status, 400);
  EXPECT_EQ(fixture.call("POST", "/v1/responses", cat(R"({"input":"a",)", tools, "}")).status, 400);
}

}  // namespace
}  // namespace deltasane::serve
