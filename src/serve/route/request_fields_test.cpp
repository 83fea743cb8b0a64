#include <gtest/gtest.h>

#include <thread>

#include "serve/fixture_service.h"
#include "serve/route/origins.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::ServiceFixture;

std::string text_of(const Json& reply) { return reply["choices"][0]["text"]; }

TEST(LogitBias, ForcesAndForbidsTokens) {
  ServiceFixture fixture;
  Json body{{"prompt", "User: 3 + 4\n\nAssistant:"}, {"max_tokens", 6}, {"temperature", 0}};
  const std::string plain = text_of(fixture.post("/v1/completions", body));
  body["logit_bias"] = {{"97", 100}};
  EXPECT_EQ(text_of(fixture.post("/v1/completions", body)), "aaaaaa");
  body["logit_bias"] = {{cat(int(plain[0])), -100}};
  EXPECT_NE(text_of(fixture.post("/v1/completions", body))[0], plain[0]);
  body["logit_bias"] = {{"97", 0}};
  EXPECT_EQ(text_of(fixture.post("/v1/completions", body)), plain);
  body["logprobs"] = 1;
  EXPECT_EQ(fixture.call("POST", "/v1/completions", dump(body)).status, 400);
  for (const char* const bad : {R"({"256":1})", R"({"-1":1})", R"({"a":1})", R"({"5":101})", R"([5])", R"({"5":"x"})"})
    EXPECT_EQ(fixture.call("POST", "/v1/completions", cat(R"({"prompt":"a","logit_bias":)", bad, "}")).status, 400) << bad;
}

TEST(StopTokens, EndATextAndAreNoPartOfIt) {
  ServiceFixture fixture;
  Json body{{"prompt", "User: 3 + 4\n\nAssistant:"}, {"max_tokens", 6}, {"logit_bias", {{"97", 100}}}};
  body["stop_token_ids"] = {5, 97};
  const Json reply = fixture.post("/v1/completions", body);
  EXPECT_EQ(text_of(reply), "");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 1);
  for (const char* const bad : {"[256]", "[-1]", "[1.5]", "5", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]"})
    EXPECT_EQ(fixture.call("POST", "/v1/completions", cat(R"({"prompt":"a","stop_token_ids":)", bad, "}")).status, 400) << bad;
}

// Letters that may begin a stop text are held back, and given out at the end.
TEST(StopTexts, ThatNeverEndLoseNothing) {
  ServiceFixture fixture;
  Json body{{"prompt", "x"}, {"max_tokens", 40}, {"logit_bias", {{"97", 100}}},
            {"stop", {"aab", "aaab", std::string(255, 'a') + "b"}}};
  EXPECT_EQ(text_of(fixture.post("/v1/completions", body)), std::string(40, 'a'));
  body["stop"] = std::string(30, 'a');
  EXPECT_EQ(text_of(fixture.post("/v1/completions", body)), "");
  body["logit_bias"] = {{"195", 100}};  // the first byte of a character, without end
  body["max_tokens"] = 2;
  EXPECT_EQ(text_of(fixture.post("/v1/completions", body)), "\ufffd\ufffd");
}

TEST(IdempotencyKey, GivesTheFirstAnswerAgain) {
  ServiceFixture fixture;
  const std::string body = R"({"prompt":"abc","max_tokens":20,"stream":true,"temperature":2})";
  const Headers key{{"idempotency-key", "one"}};
  const auto first = fixture.begin("POST", "/v1/completions", body, key);
  const auto second = fixture.begin("POST", "/v1/completions", body, key);  // while it is written
  const HttpReply reply = first->wait();
  EXPECT_EQ(second->wait().body, reply.body);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", body, key).body, reply.body);
  EXPECT_NE(fixture.call("POST", "/v1/completions", body, {{"idempotency-key", "two"}}).body, reply.body);
  EXPECT_EQ(fixture.service->metrics.value("request_success_total", "finished_reason=\"length\""), 2);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", R"({"prompt":"b"})", key).status, 400);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", body, {{"idempotency-key", "a b"}}).status, 400);
  const std::string state = R"({"prompt":"abc"})";
  const HttpReply kept = fixture.call("POST", "/v1/states", state, {{"idempotency-key", "three"}});
  EXPECT_EQ(fixture.call("POST", "/v1/states", state, {{"idempotency-key", "three"}}).body, kept.body);
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/states").body)["data"].size(), 1u);
}

TEST(RequestFields, AreNamedOnceInTheirErrors) {
  ServiceFixture fixture;
  const auto error_of = [&](const std::string& path, const Json& body) {
    const HttpReply reply = fixture.call("POST", path, dump(body));
    EXPECT_EQ(reply.status, 400) << reply.body;
    return Json::parse(reply.body)["error"];
  };
  const std::string grammar =
      error_of("/v1/completions", {{"prompt", "a"}, {"grammar", "root ::="}})["message"];
  EXPECT_TRUE(grammar.starts_with("grammar: line 1")) << grammar;
  const Json min_p = error_of("/v1/completions", {{"prompt", "a"}, {"min_p", 0.1}});
  EXPECT_EQ(min_p["message"], "min_p: expected none or 0, found 0.1; it is not supported");
  const Json user{{"role", "user"}, {"content", " "}};
  EXPECT_EQ(error_of("/v1/chat/completions", {{"messages", {user}}})["param"], "messages");
  EXPECT_EQ(error_of("/apply-template", {{"messages", {user}}})["param"], "messages");
  EXPECT_EQ(error_of("/v1/responses", {{"input", " "}})["param"], "input");
}

// Fields that are not supported and would change the text; many clients send the values that do not.
TEST(RequestFields, ThatWouldChangeTheTextAreRefused) {
  ServiceFixture fixture;
  const auto status_of = [&](const std::string& name, const std::string& value) {
    const HttpReply reply = fixture.call(
        "POST", "/v1/completions", cat(R"({"prompt":"a","max_tokens":1,")", name, "\":", value, "}"));
    EXPECT_EQ(reply.body.find("x-deltasane-ignored"), std::string::npos);
    if (reply.status == 400) {
      EXPECT_EQ(Json::parse(reply.body)["error"]["param"], name);
    }
    return reply.status;
  };
  struct Row {
    const char *name, *changes, *does_not;
  };
  for (const Row& row : {Row{"repetition_penalty", "1.1", "1.0"}, {"repeat_penalty", "0", "1"},
                         {"min_p", "0.05", "0.0"}, {"typical_p", "0.9", "1"},
                         {"tfs_z", "0.5", "1.0"}, {"top_a", "0.2", "0"}, {"mirostat", "2", "0"},
                         {"min_tokens", "5", "0"}, {"bad_words", R"(["x"])", "[]"},
                         {"allowed_token_ids", "[5]", "[]"}, {"guided_regex", R"("a+")", R"("")"},
                         {"guided_choice", R"(["a","b"])", "[]"}, {"guided_json", R"({"a":1})", "{}"},
                         {"guided_grammar", R"("root ::= \"a\"")", R"("")"},
                         {"json_schema", R"({"type":"object"})", "{}"},
                         {"structured_outputs", R"({"regex":"a"})", "{}"},
                         {"continue_final_message", "true", "false"},
                         {"add_generation_prompt", "false", "true"},
                         {"truncate_prompt_tokens", "5", "-1"}, {"best_of", "2", "1"},
                         {"use_beam_search", "true", "false"}, {"chat_template", R"("x")", R"("")"},
                         {"dry_multiplier", "0.8", "0"}, {"xtc_probability", "0.5", "0"}}) {
    EXPECT_EQ(status_of(row.name, row.changes), 400) << row.name;
    EXPECT_EQ(status_of(row.name, row.does_not), 200) << row.name;
    EXPECT_EQ(status_of(row.name, "null"), 200) << row.name;
  }
}

// The default is that of OpenAI's completions; chats have the server's.
TEST(TokenLimits, AreThoseThatTheSettingsName) {
  ServiceFixture fixture;
  const Json props = Json::parse(fixture.call("GET", "/props").body)["default_generation_settings"];
  EXPECT_EQ(props["completion_max_tokens"], 16);
  EXPECT_EQ(props["max_tokens"], fixture.service->settings.max_output);
  const Json reply = fixture.post("/v1/completions", {{"prompt", "a"}, {"ignore_eos", true}});
  EXPECT_EQ(reply["usage"]["completion_tokens"], props["completion_max_tokens"]);
}

TEST(IdempotencyKey, IsFreeAgainWhenNothingWasDone) {
  ServeSettings settings;
  settings.scheduler.batch = 1;
  ServiceFixture fixture(settings);
  const std::string body = R"({"prompt":"a","max_tokens":100000000,"ignore_eos":true,"stream":true})";
  const Headers key{{"idempotency-key", "one"}};
  const auto first = fixture.begin("POST", "/v1/completions", body, key);
  const auto second = fixture.begin("POST", "/v1/completions", body, key);
  for (int i = 0; i < 5000 && first->pieces() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  first->leave();  // one client is left
  const size_t before = second->pieces();
  for (int i = 0; i < 5000 && second->pieces() < before + 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(second->pieces(), before + 2);
  second->leave();
  const auto third = fixture.begin("POST", "/v1/completions", body, key);
  for (int i = 0; i < 5000 && third->pieces() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(third->pieces(), 2u);
  third->leave();
}

TEST(Origins, AreAllowedByName) {
  EXPECT_TRUE(is_origin("https://chat.example") && is_origin("http://localhost:3000"));
  for (const char* const bad : {"*", "null", "chat.example", "https://", "https://a/b", "ftp://a"})
    EXPECT_FALSE(is_origin(bad)) << bad;
  ServeSettings settings;
  settings.origins = {"https://chat.example"};
  Keys keys;
  keys.add("a-secret-key");
  ServiceFixture fixture(settings, std::move(keys));
  const auto allowed = [&](const std::string& origin, const std::string& method = "GET") {
    Headers headers{{"origin", origin}, {"access-control-request-method", "POST"},
                    {"authorization", "Bearer a-secret-key"}};
    const HttpReply reply = fixture.call(method, "/v1/models", {}, headers);
    for (const auto& [name, value] : reply.headers)
      if (name == "Access-Control-Allow-Origin") return cat(reply.status, " ", value);
    return cat(reply.status);
  };
  EXPECT_EQ(allowed("https://chat.example"), "200 https://chat.example");
  EXPECT_EQ(allowed("https://chat.example", "OPTIONS"), "204 https://chat.example");
  EXPECT_EQ(allowed("https://evil.example"), "200");
  EXPECT_EQ(allowed("https://evil.example", "OPTIONS"), "405");
  EXPECT_EQ(allowed(""), "200");
}

TEST(Responses, TellTheirThoughts) {
  ServiceFixture fixture;
  Json body{{"input", "3 + 4"}, {"reasoning", {{"effort", "low"}}}, {"seed", 1}, {"max_output_tokens", 9},
            {"logit_bias", {{"62", 100}}}};  // the first > ends the mark <think>
  const Json whole = fixture.post("/v1/responses", body);
  ASSERT_EQ(whole["output"].size(), 2u);
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  const std::string thoughts = whole["output"][0]["content"][0]["text"];
  EXPECT_EQ(thoughts, std::string(8, '>'));
  EXPECT_EQ(whole["output"][1]["type"], "message");
  body["stream"] = true;
  std::string told;
  std::vector<std::string> types;
  for (const Json& event : events_in(fixture.call("POST", "/v1/responses", dump(body)).body)) {
    types.push_back(event["type"]);
    if (types.back() == "response.reasoning_text.delta") told += event["delta"].get<std::string>();
    if (types.back() == "response.output_text.done") {
      EXPECT_EQ(event["output_index"], 1);
    }
  }
  EXPECT_EQ(told, thoughts);
  EXPECT_EQ(types.back(), "response.incomplete");
  for (const char* const one : {"response.reasoning_text.done", "response.output_item.done", "response.content_part.done"})
    EXPECT_NE(std::ranges::find(types, one), types.end()) << one;
}

}  // namespace
}  // namespace deltasane::serve
