#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "serve/fixture_client.h"
#include "serve/fixture_service.h"
#include "support/scratch.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::ServiceFixture;

const std::string half = "User: 12 + 30 = ?\n\nAssistant: 12";  // two tiles
const std::string rest = " + 30 = 42. The answer";

TEST(States, ContinueAsIfThereHadBeenNoCut) {
  ServiceFixture fixture;
  ASSERT_EQ(half.size() % 16, 0u);
  const Json whole = fixture.post("/v1/completions",
                                  {{"prompt", half + rest}, {"max_tokens", 16}, {"seed", 4}});
  const Json state = fixture.post("/v1/states", {{"prompt", half}});
  EXPECT_EQ(state["position"], half.size());
  EXPECT_GT(state["loss"].get<double>(), 0);
  const std::string id = state["id"];
  for (int i = 0; i < 2; ++i) {  // a state never changes
    const Json next = fixture.post(
        "/v1/completions", {{"prompt", rest}, {"state", id}, {"max_tokens", 16}, {"seed", 4}});
    EXPECT_EQ(next["choices"][0]["text"], whole["choices"][0]["text"]);
    EXPECT_EQ(next["deltasane"]["state_in"], id);
  }
  const Json read = fixture.post("/v1/states/" + id + "/read", {{"prompt", rest}});
  EXPECT_EQ(read["position"], half.size() + rest.size());
}

TEST(States, AreForkedListedDeletedAndMoved) {
  ServiceFixture fixture;
  const std::string id = fixture.post("/v1/states", {{"prompt", half}})["id"];
  const HttpReply fork = fixture.call("POST", "/v1/states", dump({{"from", id}}));
  EXPECT_EQ(fork.status, 201);
  const std::string copy = Json::parse(fork.body)["id"];
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/states").body)["data"].size(), 2u);
  const HttpReply file = fixture.call("GET", "/v1/states/" + id + "/file");
  EXPECT_EQ(file.content_type, "application/octet-stream");
  const HttpReply back = fixture.call("PUT", "/v1/states", file.body);
  EXPECT_EQ(back.status, 201) << back.body;
  EXPECT_EQ(fixture.call("PUT", "/v1/states", file.body.substr(1)).status, 400);
  EXPECT_EQ(fixture.call("DELETE", "/v1/states/" + id).status, 200);
  EXPECT_EQ(fixture.call("GET", "/v1/states/" + id).status, 404);
  EXPECT_EQ(fixture.call("DELETE", "/v1/states/" + id).status, 404);
  EXPECT_EQ(fixture.call("GET", "/v1/states/" + copy).status, 200);
  EXPECT_EQ(fixture.call("POST", "/v1/states", "{}").status, 400);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", dump({{"prompt", "a"}, {"state", id}})).status, 404);
  EXPECT_EQ(fixture.call("POST", "/v1/completions",
                         R"({"prompt":["a","b"],"return_state":true})").status, 400);
}

TEST(States, OfAnotherKeyAreNotThere) {
  Keys keys;
  keys.add("key-of-alice");
  keys.add("key-of-bob");
  ServiceFixture fixture({}, std::move(keys));
  const Headers alice{{"authorization", "Bearer key-of-alice"}},
      bob{{"authorization", "Bearer key-of-bob"}};
  const HttpReply made = fixture.call("POST", "/v1/states", dump({{"prompt", half}}), alice);
  const std::string id = Json::parse(made.body)["id"];
  for (const char* const path : {"", "/file"})
    EXPECT_EQ(fixture.call("GET", "/v1/states/" + id + path, {}, bob).status, 404);
  EXPECT_EQ(fixture.call("DELETE", "/v1/states/" + id, {}, bob).status, 404);
  EXPECT_EQ(fixture.call("POST", "/v1/completions", dump({{"prompt", "a"}, {"state", id}}), bob).status, 404);
  EXPECT_EQ(fixture.call("GET", "/v1/states/" + id, {}, alice).status, 200);
}

// The state that remains has read the answer and nothing of the stop text.
TEST(States, EndBeforeTheStopText) {
  ServiceFixture fixture;
  for (const int seed : {1, 2, 3}) {
    const Json chat{{"messages", {{{"role", "user"}, {"content", "3 + 4"}}}},
                    {"seed", seed},
                    {"max_tokens", 300},
                    {"return_state", true}};
    const Json reply = fixture.post("/v1/chat/completions", chat);
    ASSERT_EQ(reply["choices"][0]["finish_reason"], "stop");
    const std::string id = reply["deltasane"]["state_out"];
    const Json state = Json::parse(fixture.call("GET", "/v1/states/" + id).body);
    const size_t answer = 1 + reply["choices"][0]["message"]["content"].get<std::string>().size();
    EXPECT_EQ(state["position"].get<size_t>(),
              reply["usage"]["prompt_tokens"].get<size_t>() + answer);
    const Json next = fixture.post("/v1/chat/completions",
                                   {{"messages", {{{"role", "user"}, {"content", "5 + 1"}}}},
                                    {"state", id},
                                    {"seed", seed},
                                    {"max_tokens", 20}});
    const Json again = fixture.post(
        "/apply-template", {{"messages", {{{"role", "user"}, {"content", "3 + 4"}},
                                          reply["choices"][0]["message"],
                                          {{"role", "user"}, {"content", "5 + 1"}}}}});
    EXPECT_EQ(next["usage"]["prompt_tokens"].get<size_t>(), again["prompt"].get<std::string>().size());
    EXPECT_GT(next["usage"]["prompt_tokens_details"]["cached_tokens"].get<int64_t>(), 20);
  }
}

// A text without end is taken no faster than it is read, and in pieces of whole lines.
TEST(States, ReadTextsOfAnyLength) {
  ServeSettings settings;
  settings.upload_piece_bytes = 256;
  ServiceFixture fixture(settings);
  std::string text;
  for (int i = 0; text.size() < 5000; ++i) text += cat("User: ", i, " + 4\n\nAssistant: ", i + 4, "\n\n");
  HttpRequest head{"PUT", "/v1/states/new/read", {}, {}, {}, "test"};
  std::atomic<int> resumed{0};
  head.body_reader = fixture.server->begin_body(head, [&] { ++resumed; });
  ASSERT_TRUE(head.body_reader);
  bool has_paused = false;
  for (size_t at = 0; at < text.size(); at += 100) {
    const int before = resumed;
    if (head.body_reader->take(text.substr(at, 100))) continue;
    has_paused = true;
    for (int i = 0; resumed == before; ++i) {
      ASSERT_LT(i, 20'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_TRUE(has_paused);
  const auto exchange = std::make_shared<test::KeptExchange>();
  fixture.server->handle(std::move(head), exchange);
  const Json read = Json::parse(exchange->wait().body);
  ASSERT_TRUE(read.contains("id")) << read;
  EXPECT_EQ(read["position"], text.size());
  EXPECT_GE(read["records"].size(), text.size() / 256);
  const Json whole = fixture.post("/v1/states", {{"prompt", text}});
  EXPECT_NEAR(read["loss"].get<double>(), whole["loss"].get<double>(), 0.05);
  HttpRequest json{"POST", "/v1/states/new/read", {}, {{"content-type", "application/json"}}, {}, {}};
  EXPECT_FALSE(fixture.server->begin_body(json, [] {}));
  HttpRequest other{"POST", "/v1/states/state_x/read", {}, {}, {}, {}};
  EXPECT_THROW(fixture.server->begin_body(other, [] {}), Refusal);
  HttpRequest empty{"PUT", "/v1/states/new/read", {}, {}, {}, "test"};
  empty.body_reader = fixture.server->begin_body(empty, [] {});
  const auto refused = std::make_shared<test::KeptExchange>();
  fixture.server->handle(std::move(empty), refused);
  EXPECT_EQ(refused->wait().status, 400);
}

TEST(States, AreNotReadOnForAClientThatLeft) {
  ServeSettings settings;
  settings.upload_piece_bytes = 1 << 20;
  ServiceFixture fixture(settings);
  HttpRequest head{"PUT", "/v1/states/new/read", {}, {}, {}, "test"};
  const auto body = fixture.server->begin_body(head, [] {});
  EXPECT_TRUE(body->take(std::string(size_t{1} << 20, 'a')));
  EXPECT_TRUE(test::comes_true([&] { return fixture.service->scheduler.running() == 1; }));
  body->abandon();
  EXPECT_TRUE(test::comes_true([&] { return fixture.service->scheduler.running() == 0; }));
  EXPECT_LT(fixture.service->metrics.value("prompt_tokens_read_total"), double(1 << 20));
}

TEST(Responses, GoOnFromTheStateOfThePreviousOne) {
  ServiceFixture fixture;
  const Json first = fixture.post("/v1/responses", {{"model", "small"}, {"input", "3 + 4"}, {"seed", 1},
                                                    {"instructions", "Add."}, {"max_output_tokens", 200}});
  EXPECT_EQ(first["object"], "response");
  EXPECT_EQ(first["status"], "completed");
  EXPECT_EQ(first["output"][0]["content"][0]["type"], "output_text");
  const std::string id = first["id"];
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/responses/" + id).body), first);
  const Json second = fixture.post("/v1/responses", {{"input", "5 + 1"}, {"previous_response_id", id},
                                                     {"seed", 1}, {"max_output_tokens", 200}});
  EXPECT_EQ(second["instructions"], "Add.");
  EXPECT_GT(second["usage"]["input_tokens_details"]["cached_tokens"].get<int>(), 20);
  // Other instructions cannot be unread: all is read anew.
  const Json other = fixture.post("/v1/responses", {{"input", "5 + 1"}, {"previous_response_id", id},
                                                    {"instructions", "Sum."}, {"max_output_tokens", 8}});
  EXPECT_EQ(other["usage"]["input_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(other["usage"]["input_tokens"], second["usage"]["input_tokens"]);
  EXPECT_EQ(other["status"], "incomplete");
  const Json items = Json::parse(
      fixture.call("GET", "/v1/responses/" + second["id"].get<std::string>() + "/input_items").body);
  EXPECT_EQ(items["data"].size(), 3u);
  EXPECT_EQ(fixture.call("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(fixture.call("POST", "/v1/responses",
                         dump({{"input", "a"}, {"previous_response_id", id}})).status, 404);
  const Json unkept = fixture.post("/v1/responses", {{"input", "1 + 1"}, {"store", false}, {"max_output_tokens", 4}});
  EXPECT_EQ(fixture.call("GET", "/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
}

TEST(Responses, StreamTheirEvents) {
  ServiceFixture fixture;
  const HttpReply reply = fixture.call(
      "POST", "/v1/responses", dump({{"input", "3 + 4"}, {"seed", 1}, {"stream", true}, {"max_output_tokens", 200}}));
  const std::vector<Json> events = events_in(reply.body);
  std::vector<std::string> types;
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"];
    if (type == "response.output_text.delta") text += events[i]["delta"].get<std::string>();
    if (types.empty() || types.back() != type) types.push_back(type);
  }
  EXPECT_EQ(types, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], text);
  EXPECT_TRUE(reply.body.starts_with("event: response.created\ndata: "));
}

TEST(Conversations, TakeOneTurnAtATimeAndOutliveTheServer) {
  const deltasane::test::Scratch scratch;
  ServeSettings settings;
  settings.states.folder = scratch.path() / "kept";
  std::string id;
  Json items;
  {
    ServiceFixture fixture(settings);
    id = fixture.post("/v1/conversations", {{"metadata", {{"topic", "sums"}}}})["id"];
    const Json turn{{"input", "3 + 4"}, {"conversation", id}, {"seed", 1}, {"max_output_tokens", 200}};
    fixture.post("/v1/responses", turn);
    Json endless = turn;
    endless["stream"] = true, endless["ignore_eos"] = true, endless["max_output_tokens"] = 100000000;
    endless["temperature"] = 50, endless["top_k"] = 0, endless["top_p"] = 1;
    const auto busy = fixture.begin("POST", "/v1/responses", dump(endless));
    while (busy->pieces() < 5) std::this_thread::yield();
    EXPECT_EQ(fixture.call("POST", "/v1/responses", dump(turn)).status, 409);
    busy->leave();  // nothing of that turn remains
    busy->wait();
    items = Json::parse(fixture.call("GET", "/v1/conversations/" + id + "/items").body)["data"];
    EXPECT_EQ(items.size(), 2u);
    Json second = turn;
    second["input"] = "9 + 9";
    for (int i = 0; i < 200; ++i) {  // the job is let go of after its client was answered
      if (fixture.call("POST", "/v1/responses", dump(second)).status == 200) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    items = Json::parse(fixture.call("GET", "/v1/conversations/" + id + "/items").body)["data"];
    EXPECT_EQ(items.size(), 4u);
  }
  ServiceFixture fixture(settings);
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/conversations/" + id + "/items").body)["data"], items);
  EXPECT_EQ(Json::parse(fixture.call("GET", "/v1/conversations/" + id).body)["metadata"]["topic"], "sums");
  const Json third = fixture.post("/v1/responses", {{"input", "1 + 1"}, {"conversation", {{"id", id}}}, {"max_output_tokens", 9}});
  EXPECT_GT(third["usage"]["input_tokens_details"]["cached_tokens"].get<int>(), 40);
  EXPECT_EQ(fixture.call("DELETE", "/v1/conversations/" + id).status, 200);
  EXPECT_EQ(fixture.call("GET", "/v1/conversations/" + id).status, 404);
}

TEST(Responses, RefuseHostileRequests) {
  ServiceFixture fixture;
  for (const char* const bad :
       {R"({})", R"({"input":[]})", R"({"input":5})", R"({"input":[{"role":"assistant","content":"a"}]})",
        R"({"input":[{"type":"function_call","role":"user","content":"a"}]})", R"({"input":""})",
        R"({"input":"a","previous_response_id":"x","conversation":"y"})", R"({"input":"a","tools":[{}]})",
        R"({"input":"a","text":{"format":{"type":"json_schema"}}})", R"({"input":"a","background":true})",
        R"({"input":"a","max_output_tokens":0})", R"({"input":"a","n":2})",
        R"({"input":"a","metadata":[1]})", R"({"input":"a","conversation":"y","store":false})"})
    EXPECT_EQ(fixture.call("POST", "/v1/responses", bad).status, 400) << bad;
  EXPECT_EQ(fixture.call("POST", "/v1/responses", R"({"input":"a","conversation":"y"})").status, 404);
}

}  // namespace
}  // namespace deltasane::serve
