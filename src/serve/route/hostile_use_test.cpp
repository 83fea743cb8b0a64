// Clients that do what no well-behaved one would, all at once.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "serve/fixture_service.h"
#include "support/scratch.h"

namespace deltasane::serve {
namespace {

using test::KeptExchange;
using test::ServiceFixture;

bool has_ended(const ServiceFixture& fixture) {
  for (int i = 0; i < 10'000; ++i) {
    if (fixture.service->scheduler.running() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(HostileUse, ClientsThatLeaveAtAnyTokenLeaveNothing) {
  ServeSettings settings;
  settings.scheduler.batch = 32, settings.scheduler.queue = 4000;
  ServiceFixture fixture(settings);
  const std::string body = R"({"prompt":"abc","max_tokens":100000000,"ignore_eos":true,"stream":true})";
  std::minstd_rand random(7);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::pair<std::shared_ptr<KeptExchange>, size_t>> clients;
    for (int i = 0; i < 50; ++i)
      clients.emplace_back(fixture.begin("POST", "/v1/completions", body), random() % 5);
    for (const auto& [client, pieces] : clients) {
      for (int i = 0; client->pieces() < pieces; ++i) {
        ASSERT_LT(i, 20'000);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      client->leave();
    }
  }
  EXPECT_TRUE(has_ended(fixture));
  const Json after = fixture.post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 3}});
  EXPECT_EQ(after["usage"]["completion_tokens"], 3);
  EXPECT_EQ(fixture.service->metrics.value("num_requests_waiting"), 0);
}

TEST(HostileUse, AStateThatIsDeletedInUseIsReadToItsEnd) {
  const deltasane::test::Scratch scratch;
  ServeSettings settings;
  settings.states.folder = scratch.path() / "kept";
  ServiceFixture fixture(settings);
  const std::string id = fixture.post("/v1/states", {{"prompt", "User: 3 + 4"}})["id"];
  Json body{{"prompt", "\n\nAssistant:"}, {"state", id}, {"max_tokens", 40}, {"seed", 2},
            {"ignore_eos", true}, {"stream", true}};
  const std::string whole = fixture.call("POST", "/v1/completions", dump(body)).body;
  const auto busy = fixture.begin("POST", "/v1/completions", dump(body));
  EXPECT_EQ(fixture.call("DELETE", "/v1/states/" + id).status, 200);
  EXPECT_EQ(fixture.call("DELETE", "/v1/states/" + id).status, 404);
  const auto texts = [](const std::string& stream) {
    std::string text;
    for (const Json& event : test::events_in(stream))
      if (event.is_object()) text += event["choices"][0].value("text", "");
    return text;
  };
  EXPECT_EQ(texts(busy->wait().body), texts(whole));
  EXPECT_EQ(fixture.call("POST", "/v1/completions", dump(body)).status, 404);
}

TEST(HostileUse, AForkOfAHeadThatMovesIsTheHeadBefore) {
  ServiceFixture fixture;
  const Json first = fixture.post("/v1/responses", {{"input", "3 + 4"}, {"max_output_tokens", 200}, {"seed", 1}});
  const std::string state = first["deltasane"]["state_out"];
  const Json turn{{"input", "5 + 1"}, {"previous_response_id", first["id"]}, {"seed", 3}, {"max_output_tokens", 30}};
  const auto busy = fixture.begin("POST", "/v1/responses", dump(turn));
  const HttpReply forked = fixture.call("POST", "/v1/states", dump({{"from", state}}));
  EXPECT_EQ(forked.status, 201);
  const Json moved = Json::parse(busy->wait().body);
  const Json before = Json::parse(fixture.call("GET", "/v1/states/" + state).body);
  EXPECT_EQ(Json::parse(forked.body)["position"], before["position"]);
  EXPECT_NE(moved["deltasane"]["state_out"], state);
  EXPECT_EQ(fixture.post("/v1/responses", turn)["output"][0]["content"], moved["output"][0]["content"]);
}

TEST(HostileUse, AStateFileWithAChangedByteIsRefused) {
  ServiceFixture fixture;
  const std::string id = fixture.post("/v1/states", {{"prompt", "User: 3 + 4"}})["id"];
  const std::string file = fixture.call("GET", cat("/v1/states/", id, "/file")).body;
  const auto put = [&](const std::string& bytes) {
    return fixture.call("PUT", "/v1/states", bytes, {{"content-type", "application/octet-stream"}}).status;
  };
  EXPECT_EQ(put(file), 201);
  for (size_t at = 0; at < file.size(); at += at < 512 ? 7 : file.size() / 40) {
    std::string changed = file;
    changed[at] = char(changed[at] ^ 0x10);
    EXPECT_EQ(put(changed), 400) << at;
  }
  for (const size_t length : {size_t{1}, file.size() / 2, file.size() - 1}) EXPECT_EQ(put(file.substr(0, length)), 400);
  EXPECT_EQ(put(file + "x"), 400);
}

}  // namespace
}  // namespace deltasane::serve
