#include "serve/view/session_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/half.h"
#include "serve/fixture_service.h"

namespace deltasane::serve {
namespace {

using test::events_in;
using test::KeptExchange;
using test::ServiceFixture;

TEST(SessionView, WritesHalvesAsBase64) {
  EXPECT_EQ(base64_of("Man"), "TWFu");
  EXPECT_EQ(base64_of("Ma"), "TWE=");
  EXPECT_EQ(base64_of("M"), "TQ==");
  EXPECT_EQ(base64_of(""), "");
  const double numbers[] = {1, -2, 0.5};  // 3c00, c000, 3800
  EXPECT_EQ(base64_of_halves(numbers), base64_of({"\x00\x3c\x00\xc0\x00\x38", 6}));
}

// Heads that double every 1000 tokens are seen to grow, and when they will overflow.
TEST(SessionView, ForeseesAnOverflow) {
  StateLayout layout;
  layout.add("memory", StateKind::memory, 0, {2, 2, 2});
  const auto shared = std::make_shared<const StateLayout>(layout);
  ThreadPool threads(1);
  SessionView view({.id = "a", .owner = std::nullopt, .sane = "none"});
  for (int64_t i = 0; i < 600; ++i) {
    SequenceState state(shared);
    state.position = 100 * i;
    state.mutable_fixed()[0] = float(std::exp2(double(i) / 10));  // head 0
    state.mutable_fixed()[4] = 1;
    view.take({.id = "a", .owner = std::nullopt, .sane = "none", .position = state.position,
               .losses = {1, 2}, .state = std::move(state)},
              threads);
  }
  const Json row = view.row(), all = view.details(std::nullopt);
  EXPECT_EQ(row["growing"], 1);
  EXPECT_NEAR(row["overflow_in"].get<double>(), 68'100, 700);  // 128 doublings less 59.9
  EXPECT_EQ(row["loss"], 1.5);
  EXPECT_EQ(all["shown"]["head"], 0);
  EXPECT_EQ(all["shown"]["law"], "exponential");
  EXPECT_NEAR(all["shown"]["doubling"].get<double>(), 1000, 10);
  EXPECT_LE(all["positions"].size(), 256u);
  EXPECT_EQ(all["positions"].back(), 59'900);
  EXPECT_EQ(all["heads_of_layers"], Json({2}));
  EXPECT_EQ(view.details(1)["shown"]["law"], "bounded");
  EXPECT_EQ(view.details(7)["shown"]["head"], 0);  // there is none: the largest
  EXPECT_TRUE(all["histogram"].is_null());
}

std::shared_ptr<KeptExchange> frames(ServiceFixture& fixture, const Headers& headers = {},
                                     const std::string& query = {}) {
  auto exchange = std::make_shared<KeptExchange>();
  fixture.server->handle({"GET", "/v1/events", query, headers, {}, "test"}, exchange);
  return exchange;
}

Json last_frame(const std::shared_ptr<KeptExchange>& exchange, size_t least) {
  for (int i = 0; i < 5000 && exchange->pieces() < least; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(exchange->pieces(), least);
  const std::vector<Json> all = events_in(exchange->so_far().body);
  return all.empty() ? Json() : all.back();
}

TEST(Events, ShowTheHeadsOfWhatIsWritten) {
  ServiceFixture fixture;
  const auto viewer = frames(fixture);
  EXPECT_TRUE(last_frame(viewer, 1)["sessions"].empty());
  Json body{{"prompt", std::string(200, 'a')}, {"max_tokens", 100}, {"ignore_eos", true},
            {"seed", 1}, {"session", "mine"}};
  const Json watched = fixture.post("/v1/completions", body);
  const Json frame = last_frame(viewer, viewer->pieces() + 2);
  ASSERT_EQ(frame["watched"].size(), 1u) << frame;
  const Json& session = frame["watched"][0];
  EXPECT_EQ(session["id"], "mine");
  EXPECT_EQ(session["phase"], "ended");
  EXPECT_GE(session["position"].get<int64_t>(), 299);
  size_t heads = 0;
  for (const Json& count : session["heads_of_layers"]) heads += count.get<size_t>();
  EXPECT_EQ(heads, fixture.model->state_layout()->heads().size());
  EXPECT_EQ(session["log_norm"].get<std::string>().size(), (2 * heads + 2) / 3 * 4);
  EXPECT_GT(session["norm"].get<double>(), 0);
  viewer->leave();
  const Json alone = fixture.post("/v1/completions", body);
  EXPECT_EQ(alone["choices"], watched["choices"]);  // nothing changes because somebody looks
}

TEST(Events, ShowAKeyItsOwnSessionsOnly) {
  Keys keys;
  keys.add("key-of-anna"), keys.add("key-of-bert");
  ServiceFixture fixture({}, std::move(keys));
  const Headers anna{{"authorization", "Bearer key-of-anna"}}, bert{{"authorization", "Bearer key-of-bert"}};
  const auto hers = frames(fixture, anna), his = frames(fixture, bert, "watch=mine");
  last_frame(hers, 1), last_frame(his, 1);
  fixture.call("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":9,"session":"mine"})", anna);
  fixture.call("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":9,"session":"mine"})", bert);
  EXPECT_EQ(last_frame(hers, hers->pieces() + 2)["sessions"].size(), 1u);
  const Json frame = last_frame(his, his->pieces() + 2);
  EXPECT_TRUE(frame["sessions"].empty()) << frame;  // the name was taken by another key
  EXPECT_TRUE(frame["watched"].empty());
  fixture.service->board.close();
  hers->wait();
  EXPECT_EQ(frames(fixture, anna)->wait().status, 503);
  EXPECT_EQ(frames(fixture, anna, "head=x")->wait().status, 400);
}

TEST(States, ShowTheirHeads) {
  ServiceFixture fixture;
  const std::string id = fixture.post("/v1/states", {{"prompt", "User: 3 + 4\n\nAssistant:"}})["id"];
  const Json shown = Json::parse(fixture.call("GET", cat("/v1/states/", id, "/heads")).body);
  EXPECT_EQ(shown["heads"].size(), fixture.model->state_layout()->heads().size());
  const KeptState kept = fixture.service->states.find("", id);
  double squares = 0;
  for (const StateHead& head : kept.state->layout().heads())
    for (const float entry : kept.state->of(head)) squares += double(entry) * double(entry);
  EXPECT_NEAR(shown["norm"].get<double>(), std::sqrt(squares), 1e-9 * std::sqrt(squares));
  EXPECT_EQ(fixture.call("GET", "/v1/states/state_x/heads").status, 404);
}

TEST(Page, IsOneFileThatRunsItsOwnScriptOnly) {
  ServiceFixture fixture;
  for (const char* const path : {"/", "/dashboard", "/chat"}) {
    const HttpReply reply = fixture.call("GET", path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.content_type, "text/html; charset=utf-8");
    EXPECT_EQ(reply.headers[0].first, "Content-Security-Policy");
    EXPECT_NE(reply.headers[0].second.find("default-src 'none'; script-src 'sha256-"), std::string::npos);
    EXPECT_EQ(reply.headers[0].second.find("unsafe"), std::string::npos);
    for (const char* const outside : {"src=", "@import", "https://", "url("})
      EXPECT_EQ(reply.body.find(outside), std::string::npos) << outside;
  }
}

}  // namespace
}  // namespace deltasane::serve
