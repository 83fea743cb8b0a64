// Bodies that come faster than they are taken, over sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "serve/fixture_client.h"
#include "serve/http/http_server.h"

namespace deltasane::serve {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::RawClient;

// Every body pauses after each of its pieces.
class PausingHandler final : public HttpHandler {
 public:
  struct Body final : BodyReader {
    explicit Body(PausingHandler& of) : handler(of) {}
    bool take(std::string piece) override {
      bytes += piece.size();
      ++handler.pauses;
      return false;
    }
    void abandon() override { ++handler.abandoned; }
    PausingHandler& handler;
    size_t bytes = 0;
  };
  size_t body_limit(const HttpRequest&) override { return 0; }
  std::shared_ptr<BodyReader> begin_body(const HttpRequest&, std::function<void()> resume) override {
    const std::lock_guard lock(mutex_);
    resumes_.push_back(std::move(resume));
    return std::make_shared<Body>(*this);
  }
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override {
    const auto& body = dynamic_cast<const Body&>(*request.body_reader);
    exchange->reply({200, "text/plain", cat(body.bytes), {}});
  }
  void resume_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& resume : resumes_) resume();
  }

  std::atomic<int> pauses{0}, abandoned{0};

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> resumes_;
};

struct UploadTest : testing::Test {
  PausingHandler handler;
  std::unique_ptr<HttpServer> server;
  std::thread thread;

  void SetUp() override {
    if (!has_http_server) GTEST_SKIP() << "this build has no Boost";
  }
  void start(const HttpLimits& limits = {}) {
    server = std::make_unique<HttpServer>(handler, limits);
    server->listen("127.0.0.1", 0);
    thread = std::thread([this] { server->run(2); });
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!server) return;
    server->stop();
    thread.join();
    server.reset();
  }
  static std::string head(size_t bytes) {
    return cat("PUT /text HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", bytes, "\r\n\r\n");
  }
  // A client of whose body a piece was taken.
  std::unique_ptr<RawClient> paused(size_t sent) {
    const int before = handler.pauses;
    auto client = std::make_unique<RawClient>(server->port());
    client->send(head(10'000'000) + std::string(sent, 'a'));
    EXPECT_TRUE(comes_true([&] { return handler.pauses > before; }));
    return client;
  }
};

TEST_F(UploadTest, IsTakenNoFasterThanItIsRead) {
  HttpLimits limits;
  limits.body_bytes = 60'000;
  start(limits);
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over) handler.resume_all(), std::this_thread::sleep_for(1ms);
  });
  const size_t bytes = 3'000'000;
  {
    RawClient client(server->port());
    client.send(head(bytes) + std::string(bytes, 'a'));
    const std::string reply = client.reply();
    EXPECT_EQ(test::status_in(reply), 200);
    EXPECT_EQ(test::body_in(reply), cat(bytes));
  }
  is_over = true;
  reader.join();
  EXPECT_GT(handler.pauses, 10);
  EXPECT_EQ(handler.abandoned, 0);
  EXPECT_TRUE(comes_true([&] { return server->connections() == 0; }));
}

// With room for bytes in memory, and without.
TEST_F(UploadTest, OfAClientThatLeavesHoldsNoPlace) {
  HttpLimits limits;
  limits.connections_of_address = 2, limits.body_bytes = 60'000;
  start(limits);
  int left = 0;
  for (const size_t sent : {5'000, 5'000, 5'000, 100'000, 100'000, 100'000}) {
    const auto client = paused(sent);
    EXPECT_EQ(server->connections(), 1u);
    client->reset();
    ++left;
    ASSERT_TRUE(comes_true([&] { return server->connections() == 0; })) << sent;
    EXPECT_EQ(handler.abandoned, left);
  }
}

TEST_F(UploadTest, EndsWithAFinBehindMuchOfABody) {
  start();
  paused(3'000'000).reset();
  EXPECT_TRUE(comes_true([&] { return server->connections() == 0; }));
  EXPECT_EQ(handler.abandoned, 1);
}

TEST_F(UploadTest, IsAbandonedWithTheServer) {
  start();
  const auto client = paused(100'000), other = paused(5'000);
  stop();
  EXPECT_EQ(handler.abandoned, 2);
  handler.resume_all();  // does nothing
  EXPECT_TRUE(client->is_closed());
  EXPECT_TRUE(other->is_closed());
}

TEST_F(UploadTest, IsCutAtTheEndOfADrain) {
  start();
  const auto client = paused(100'000);
  server->drain(50ms);
  EXPECT_TRUE(client->is_closed());
  EXPECT_TRUE(comes_true([&] { return handler.abandoned == 1; }));
}

}  // namespace
}  // namespace deltasane::serve
