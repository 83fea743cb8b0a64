#include <gtest/gtest.h>

#include <thread>

#include "serve/fixture_service.h"
#include "support/errors.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::KeptExchange;
using test::ServiceFixture;

TEST(Server, AnswersAboutItself) {
  ServiceFixture fixture;
  EXPECT_EQ(fixture.call("GET", "/health").status, 200);
  EXPECT_EQ(fixture.call("GET", "/ready").status, 200);
  const Json models = Json::parse(fixture.call("GET", "/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "small");
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/models/small").body), models["data"][0]);
  EXPECT_EQ(fixture.call("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(Json::parse(fixture.call("GET", "/props").body)["chat_template"], "world");
  fixture.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 3}});
  EXPECT_GT(fixture.server->useful_connections(), 2u * 64);
  const HttpReply metrics = fixture.call("GET", "/metrics");
  EXPECT_NE(metrics.body.find("deltasane_generation_tokens_total 3\n"), metrics.body.npos);
  fixture.service->is_draining = true;
  EXPECT_EQ(fixture.call("GET", "/ready").status, 503);
  EXPECT_EQ(fixture.call("GET", "/health").status, 200);
  const HttpReply refused = fixture.call("POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers, (Headers{{"Retry-After", "1"}}));
  EXPECT_EQ(fixture.call("GET", "/v1/models").status, 503);
}

TEST(Server, RefusesOtherPathsAndMethods) {
  ServiceFixture fixture;
  for (const char* const path : {"/v1", "/v1/", "/v1/models/", "/v1/models/a/b", "/healthy",
                                 "/v1/embeddings", "/api/generate"})
    EXPECT_EQ(fixture.call("GET", path).status, 404) << path;
  EXPECT_NE(fixture.call("GET", "/healthy").body.find("no such path: /healthy\""), std::string::npos);
  EXPECT_NE(fixture.call("GET", "/v1/states/x").body.find("no state with this id"), std::string::npos);
  const HttpReply reply = fixture.call("GET", "/v1/completions");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers, (Headers{{"Allow", "POST"}}));
  EXPECT_EQ(fixture.call("HEAD", "/v1/completions").status, 405);
  EXPECT_EQ(fixture.call("POST", "/health").headers, (Headers{{"Allow", "GET, HEAD"}}));
}

TEST(Server, AnswersHeadAsGet) {
  ServiceFixture fixture;
  for (const char* const path : {"/", "/health", "/v1/models", "/props", "/v1/states"}) {
    const HttpReply head = fixture.call("HEAD", path);
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_EQ(head.body, fixture.call("GET", path).body);  // that the connection leaves out
  }
  EXPECT_EQ(fixture.call("HEAD", "/v1/states/x").status, 404);
  HttpRequest head{"HEAD", "/health", {}, {}, {}, {}};
  EXPECT_EQ(fixture.server->body_limit(head), 0u);
}

TEST(Server, BeginsOnlyWithATemplateOfTheTokenizers) {
  ServiceFixture fixture;
  const auto begin = [&](const char* name, ReplyMode mode) {
    ServeSettings settings;
    settings.reply_mode = mode;
    Service(*fixture.model, fixture.tokenizer, name ? chat_template_named(name) : nullptr,
            kernel::Cpu{fixture.threads}, std::move(settings), Keys());
  };
  EXPECT_FAULT(begin("chatml", ReplyMode::plain), Fault::usage, "special token <|im_start|>");
  EXPECT_NO_THROW(begin("world", ReplyMode::think));
  EXPECT_NO_THROW(begin(nullptr, ReplyMode::plain));
}

TEST(Server, KeepsOutWhoHasNoKey) {
  Keys keys;
  keys.add("a-secret-key");
  ServiceFixture fixture({}, std::move(keys));
  EXPECT_EQ(fixture.call("GET", "/health").status, 200);
  EXPECT_EQ(fixture.call("GET", "/ready").status, 200);
  for (const Route& route : routes()) {
    if (route.is_open) continue;
    std::string path(route.path);
    if (const size_t at = path.find("{}"); at != path.npos) path.replace(at, 2, "x");
    const HttpReply reply = fixture.call(std::string(route.method), path, "{}");
    EXPECT_EQ(reply.status, 401) << path;
    EXPECT_EQ(Json::parse(reply.body)["error"]["type"], "authentication_error");
    HttpRequest head{std::string(route.method), path, {}, {}, {}, {}};
    EXPECT_THROW(fixture.server->body_limit(head), Refusal) << path;
  }
  const Headers right{{"authorization", "Bearer a-secret-key"}};
  EXPECT_EQ(fixture.call("GET", "/v1/models", {}, right).status, 200);
}

TEST(Server, AnswersToItsNamesOnly) {
  ServeSettings settings;
  settings.hosts = {"localhost", "127.0.0.1"};
  ServiceFixture fixture(settings);
  EXPECT_EQ(fixture.call("GET", "/health", {}, {{"host", "LOCALHOST:8080"}}).status, 200);
  EXPECT_EQ(fixture.call("GET", "/health", {}, {{"host", "evil.example"}}).status, 403);
}

TEST(Scheduler, AnswersDoNotDependOnOthers) {
  ServeSettings settings;
  settings.scheduler.batch_invariant = true;
  settings.scheduler.batch = 8;
  ServiceFixture fixture(settings);
  const auto body = [](int number) {
    return dump({{"prompt", cat("User: my secret is ", 1000 + number, "\n\nAssistant:")},
                 {"max_tokens", 8},
                 {"temperature", 1.5},
                 {"seed", number}});
  };
  std::vector<std::string> alone;
  const auto text_of = [](const HttpReply& reply) {
    return Json::parse(reply.body)["choices"][0]["text"].get<std::string>();
  };
  for (int i = 0; i < 5; ++i) alone.push_back(text_of(fixture.call("POST", "/v1/completions", body(i))));
  std::vector<std::shared_ptr<KeptExchange>> together;
  for (int i = 0; i < 5; ++i) together.push_back(fixture.begin("POST", "/v1/completions", body(i)));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(text_of(together[size_t(i)]->wait()), alone[size_t(i)]) << i;
}

TEST(Scheduler, LetsGoOfAClientThatLeaves) {
  ServiceFixture fixture;
  const auto exchange = fixture.begin(
      "POST", "/v1/completions",
      R"({"prompt":"User: hi","max_tokens":100000000,"ignore_eos":true,"stream":true,"top_k":0})");
  while (exchange->pieces() < 3) std::this_thread::yield();
  exchange->leave();
  exchange->wait();
  for (int i = 0; fixture.service->scheduler.running() > 0; ++i) {
    ASSERT_LT(i, 5000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(fixture.service->metrics.value("request_success_total", "finished_reason=\"abort\""), 1);
}

TEST(Scheduler, RefusesWhatTheQueueCannotHold) {
  ServeSettings settings;
  settings.scheduler.batch = 1, settings.scheduler.queue = 2;
  ServiceFixture fixture(settings);
  const std::string body =
      R"({"prompt":"User: hi","max_tokens":100000000,"ignore_eos":true,"stream":true,"top_k":0})";
  const auto first = fixture.begin("POST", "/v1/completions", body);
  while (first->pieces() < 1) std::this_thread::yield();
  const auto second = fixture.begin("POST", "/v1/completions", body);
  const auto third = fixture.begin("POST", "/v1/completions", body);
  const HttpReply refused = fixture.call("POST", "/v1/completions", body);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers, (Headers{{"Retry-After", "1"}}));
  second->leave();
  EXPECT_EQ(second->wait().status, 503);
  fixture.service->scheduler.refuse_further();
  EXPECT_EQ(fixture.call("POST", "/v1/completions", body).status, 503);
}

TEST(Chat, StreamsWhatItAnswers) {
  ServiceFixture fixture;
  Json body{{"model", "small"},
            {"messages", {{{"role", "system"}, {"content", "Add."}},
                          {{"role", "user"}, {"content", Json::array({{{"type", "text"}, {"text", "3 + 4"}}})}}}},
            {"max_completion_tokens", 24},
            {"seed", 3}};
  const Json whole = fixture.post("/v1/chat/completions", body);
  const Json& message = whole["choices"][0]["message"];
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(whole["object"], "chat.completion");
  const Json shown = fixture.post("/apply-template", {{"messages", body["messages"]}});
  EXPECT_EQ(shown["prompt"], "System: Add.\n\nUser: 3 + 4\n\nAssistant:");
  EXPECT_EQ(whole["usage"]["prompt_tokens"], shown["prompt"].get<std::string>().size());
  body["stream"] = true;
  std::vector<Json> events = events_in(fixture.call("POST", "/v1/chat/completions", dump(body)).body);
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  EXPECT_EQ(events[0]["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
  std::string text;
  for (const Json& event : events) text += event["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(text, message["content"].get<std::string>());
}

TEST(Chat, TellsThoughtsFromAnswers) {
  ServiceFixture fixture;
  const Json reply = fixture.post(
      "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "3 + 4"}}}},
                               {"max_tokens", 6},
                               {"reasoning_effort", "none"},
                               {"logprobs", true},
                               {"top_logprobs", 2}});
  EXPECT_EQ(reply["choices"][0]["logprobs"]["content"].size(), reply["usage"]["completion_tokens"]);
  EXPECT_EQ(reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"].size(), 2u);
}

TEST(Chat, RefusesHostileRequests) {
  ServiceFixture fixture;
  for (const char* const bad :
       {R"({})", R"({"messages":[]})", R"({"messages":"a"})", R"({"messages":[5]})",
        R"({"messages":[{"role":"user"}]})", R"({"messages":[{"content":"a"}]})",
        R"({"messages":[{"role":"tool","content":"a"}]})",
        R"({"messages":[{"role":"assistant","content":"a"}]})",
        R"({"messages":[{"role":"user","content":""}]})",
        R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
        R"({"messages":[{"role":"user","content":"a"}],"max_tokens":0})",
        R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":3})",
        R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":21,"logprobs":true})",
        R"({"messages":[{"role":"user","content":"a"}],"reasoning_effort":"much"})",
        R"({"messages":[{"role":"user","content":"a"}],"modalities":["audio"]})",
        R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"xml"}})"})
    EXPECT_EQ(fixture.call("POST", "/v1/chat/completions", bad).status, 400) << bad;
}

}  // namespace
}  // namespace deltasane::serve
