#include "serve/http/http_server.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "serve/fixture_client.h"

namespace deltasane::serve {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::RawClient;
using test::request;
using test::status_in;

// /echo gives the body back; /hold keeps the exchange; /stream writes three pieces; /endless writes
// until the client is gone; /much writes more than sockets hold, and keeps the exchange; /drop forgets
// the exchange.
class Paths : public HttpHandler {
 public:
  size_t body_limit(const HttpRequest& head) override {
    if (head.path == "/no") throw Refusal(401, "no", "no");
    return 1000;
  }
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override {
    ++requests;
    if (request.path == "/echo") return exchange->reply({200, "text/plain", request.body, {}});
    if (request.path == "/stream") {
      exchange->begin_stream({200, "text/event-stream", {}, {}});
      for (const char* const piece : {"a", "b", "c"}) exchange->write(piece);
      return exchange->end_stream();
    }
    if (request.path == "/drop") return;
    if (request.path == "/endless") {
      exchange->begin_stream({200, "text/event-stream", {}, {}});
      auto over = std::make_shared<std::atomic<bool>>(false);
      exchange->on_gone([this, over] { *over = true, ++gone; });
      writers.emplace_back([this, exchange, over] {
        while (!*over && !is_over) {
          exchange->write(std::string(50000, 'x'));
          std::this_thread::sleep_for(1ms);
        }
      });
      return;
    }
    exchange->on_gone([this] { ++gone; });
    if (request.path == "/much") {
      exchange->begin_stream({200, "text/event-stream", {}, {}});
      for (int i = 0; i < 16; ++i) exchange->write(std::string(1 << 20, 'x'));
    }
    const std::lock_guard lock(mutex);
    held.push_back(std::move(exchange));
  }
  size_t useful_connections() const override { return useful; }
  std::shared_ptr<Exchange> take_held() {
    for (int i = 0; i < 2000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (!held.empty()) {
          auto found = held.back();
          held.pop_back();
          return found;
        }
      }
      std::this_thread::sleep_for(2ms);
    }
    return nullptr;
  }

  size_t useful = 0;
  std::atomic<int> requests{0}, gone{0};
  std::atomic<bool> is_over{false};  // a client that was never seen to leave keeps no writer
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  std::vector<std::thread> writers;
};

struct HttpServerTest : testing::Test {
  Paths paths;
  std::unique_ptr<HttpServer> server;
  std::thread thread;

  void SetUp() override {
    if (!has_http_server) GTEST_SKIP() << "this build has no Boost";
  }
  void start(const HttpLimits& limits = {}) {
    server = std::make_unique<HttpServer>(paths, limits);
    server->listen("127.0.0.1", 0);
    thread = std::thread([this] { server->run(2); });
  }
  void TearDown() override {
    if (!server) return;
    if (thread.joinable()) {
      server->stop();
      thread.join();
    }
    paths.is_over = true;
    for (std::thread& writer : paths.writers) writer.join();
    paths.held.clear();
  }
  std::string ask(std::string_view bytes) {
    RawClient client(server->port());
    client.send(bytes);
    return client.reply();
  }
};

TEST_F(HttpServerTest, KeepsConnectionsAndTakesRequestsAhead) {
  start();
  RawClient client(server->port());
  client.send(request("POST", "/echo", "one") + request("POST", "/echo", "two") +
              request("GET", "/stream") + request("POST", "/echo", "three"));
  const std::string first = client.reply();
  EXPECT_EQ(status_in(first), 200);
  EXPECT_EQ(test::body_in(first), "one");
  EXPECT_NE(first.find("X-Content-Type-Options: nosniff"), first.npos);
  EXPECT_NE(first.find("Cache-Control: no-store"), first.npos);
  EXPECT_EQ(test::body_in(client.reply()), "two");
  EXPECT_EQ(test::body_in(client.reply()), "abc");
  EXPECT_EQ(test::body_in(client.reply()), "three");
}

TEST_F(HttpServerTest, SpeaksTheEarlierVersion) {
  start();
  RawClient client(server->port());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string reply = client.reply();
  EXPECT_EQ(test::body_in(reply), "abc");
  EXPECT_EQ(reply.find("chunked"), reply.npos);
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpServerTest, AnswersEveryBadRequestAndCloses) {
  start();
  RawClient client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc");
  const std::string reply = client.reply();
  EXPECT_EQ(status_in(reply), 400);
  EXPECT_NE(reply.find("\"error\""), reply.npos);
  EXPECT_TRUE(client.is_closed());
  EXPECT_NE(ask("GET /echo HTTP/1.1\r\n\r\n").find("the Host header is missing"), reply.npos);
  EXPECT_EQ(status_in(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n")), 413);
  EXPECT_EQ(status_in(ask("POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")), 401);
  EXPECT_EQ(status_in(ask(cat("GET /", std::string(17000, 'a')))), 431);
  EXPECT_EQ(status_in(ask(request("GET", "/drop"))), 500);
  EXPECT_EQ(paths.requests, 1);
}

TEST_F(HttpServerTest, SaysContinueOnlyWhereItTakesTheBody) {
  start();
  RawClient client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_EQ(test::body_in(client.reply()), "abc");
  EXPECT_EQ(status_in(ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\nExpect: "
                          "100-continue\r\n\r\n")),
            413);
}

TEST_F(HttpServerTest, EndsSlowAndIdleClients) {
  HttpLimits limits;
  limits.head_time = 150ms, limits.block_time = 150ms, limits.body_time = 400ms;
  limits.idle_time = 200ms;
  start(limits);
  RawClient idle(server->port());
  EXPECT_TRUE(idle.is_closed());
  RawClient head(server->port());
  head.send("GET /echo HT");
  EXPECT_EQ(status_in(head.reply()), 408);
  RawClient body(server->port());
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab");
  EXPECT_EQ(status_in(body.reply()), 408);
  RawClient trickle(server->port());
  trickle.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
  const auto begin = std::chrono::steady_clock::now();
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) trickle.send("a"), std::this_thread::sleep_for(50ms);
  });
  EXPECT_EQ(status_in(trickle.reply()), 408);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  writer.join();
}

TEST_F(HttpServerTest, SeesThatAClientGoesAway) {
  start();
  {
    RawClient client(server->port());
    client.send(request("GET", "/hold"));
    ASSERT_TRUE(comes_true([&] { return paths.requests == 1; }));
  }
  EXPECT_TRUE(comes_true([&] { return paths.gone == 1; }));
  paths.take_held()->reply({});  // does nothing
  RawClient client(server->port());
  client.send(request("GET", "/hold"));
  paths.take_held()->reply({200, "text/plain", "late", {}});
  EXPECT_EQ(test::body_in(client.reply()), "late");
  EXPECT_EQ(paths.gone, 1);
}

TEST_F(HttpServerTest, CutsOffAClientThatDoesNotRead) {
  HttpLimits limits;
  limits.unread_bytes = 100'000;
  start(limits);
  RawClient client(server->port());
  client.send(request("GET", "/endless"));
  EXPECT_TRUE(comes_true([&] { return paths.gone == 1; }));
}

// More of them than there are threads for sockets. None is cut off before the last reply, so no reply
// waited for that.
TEST_F(HttpServerTest, AnswersOthersWhileClientsDoNotRead) {
  HttpLimits limits;
  limits.unread_bytes = 64 << 20;
  start(limits);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<RawClient>(server->port()));
    silent.back()->send(request("GET", "/much"));
  }
  ASSERT_TRUE(comes_true([&] {
    const std::lock_guard lock(paths.mutex);
    return paths.held.size() == silent.size();
  }));
  std::chrono::steady_clock::duration longest{};
  for (int i = 0; i < 200; ++i) {
    const auto began = std::chrono::steady_clock::now();
    ASSERT_EQ(test::body_in(ask(request("POST", "/echo", "a", "Connection: close\r\n"))), "a");
    longest = std::max(longest, std::chrono::steady_clock::now() - began);
  }
  EXPECT_EQ(ask(request("GET", "/stream", {}, "Connection: close\r\n")).substr(9, 3), "200");
  EXPECT_EQ(paths.gone, 0);
  RecordProperty("longest_wait_us", int(longest / 1us));
}

TEST_F(HttpServerTest, LimitsConnectionsAndRequests) {
  HttpLimits limits;
  limits.connections_of_address = 4, limits.requests_of_connection = 2;
  start(limits);
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(comes_true([&] { return server->connections() == 4; }));
    RawClient fifth(server->port());
    fifth.send(request("POST", "/echo", "a"));
    const std::string reply = fifth.reply();
    EXPECT_EQ(status_in(reply), 429) << reply;
    EXPECT_NE(reply.find("Retry-After: 1\r\n"), reply.npos);
    EXPECT_NE(test::body_in(reply).find("\"type\":\"rate_limit_error\""), reply.npos);
    EXPECT_TRUE(fifth.is_closed());
    EXPECT_EQ(server->connections(), 4u);
  }
  EXPECT_EQ(paths.requests, 0);
  ASSERT_TRUE(comes_true([&] { return server->connections() == 0; }));
  RawClient client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.send(request("POST", "/echo", "a"));
    EXPECT_EQ(status_in(client.reply()), 200);
  }
  EXPECT_TRUE(client.is_closed());
}

TEST_F(HttpServerTest, TakesAsManyConnectionsAsAreUseful) {
  HttpLimits limits;
  limits.connections = 3, limits.connections_of_address = 2;
  paths.useful = 5;
  start(limits);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<RawClient>(server->port()));
  EXPECT_TRUE(comes_true([&] { return server->connections() == 5; }));
  EXPECT_EQ(status_in(ask(request("GET", "/stream"))), 429);
}

// They are answered, or closed without an answer where there are many, and are soon gone.
TEST_F(HttpServerTest, RefusesManyConnectionsAtATime) {
  HttpLimits limits;
  limits.connections = 2;
  start(limits);
  {
    std::vector<std::unique_ptr<RawClient>> clients, refused;
    for (int i = 0; i < 2; ++i) clients.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(comes_true([&] { return server->connections() == 2; }));
    for (int i = 0; i < 200; ++i) refused.push_back(std::make_unique<RawClient>(server->port()));
    EXPECT_EQ(status_in(refused[0]->reply()), 503);
    for (const auto& one : refused) EXPECT_TRUE(one->is_closed());
    clients[0]->send(request("POST", "/echo", "a"));
    EXPECT_EQ(test::body_in(clients[0]->reply()), "a");
  }
  ASSERT_TRUE(comes_true([&] { return server->connections() == 0; }));
  EXPECT_EQ(status_in(ask(request("POST", "/echo", "a"))), 200);
}

TEST_F(HttpServerTest, GivesHeadsWithoutTheirBodies) {
  start();
  RawClient client(server->port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_NE(client.until("\r\n\r\n").find("Content-Length: 3\r\n"), std::string::npos);
  for (const char* const path : {"/stream", "/endless"}) {
    client.send(cat("HEAD ", path, " HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_EQ(status_in(client.until("\r\n\r\n")), 200);
  }
  EXPECT_TRUE(comes_true([&] { return paths.gone == 1; }));  // nothing more is wanted of the stream
  client.send(request("POST", "/echo", "next"));
  EXPECT_EQ(test::body_in(client.reply()), "next");
}

TEST_F(HttpServerTest, AnswersBesideAThousandIdleConnections) {
  struct rlimit files {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t before = files.rlim_cur;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ::setrlimit(RLIMIT_NOFILE, &files);
  const size_t most = std::min<size_t>(1000, (files.rlim_cur - 64) / 2);
  HttpLimits limits;
  limits.connections = most + 1, limits.connections_of_address = 2000;
  start(limits);
  {
    std::vector<std::unique_ptr<RawClient>> idle;
    for (size_t i = 0; i < most; ++i) idle.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(comes_true([&] { return server->connections() == most; }));
    EXPECT_EQ(status_in(ask(request("POST", "/echo", "a"))), 200);
    idle[most / 2]->send(request("POST", "/echo", "b"));
    EXPECT_EQ(test::body_in(idle[most / 2]->reply()), "b");
  }
  EXPECT_TRUE(comes_true([&] { return server->connections() == 0; }));
  files.rlim_cur = before;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

TEST_F(HttpServerTest, SurvivesAResetAtEveryByte) {
  start();
  const std::string whole = request("POST", "/echo", "hello");
  for (size_t length = 0; length <= whole.size(); ++length) {
    RawClient client(server->port());
    client.send(std::string_view(whole).substr(0, length));
    client.reset();
  }
  EXPECT_EQ(status_in(ask(whole)), 200);
  EXPECT_TRUE(comes_true([&] { return server->connections() == 0; }));
}

TEST_F(HttpServerTest, DrainsWhatIsUnderWayAndNothingElse) {
  start();
  RawClient idle(server->port()), busy(server->port());
  busy.send(request("GET", "/hold"));
  const std::shared_ptr<Exchange> held = paths.take_held();
  ASSERT_TRUE(held);
  server->drain(10s);
  const auto closes = [&](RawClient& client) {
    client.send(request("POST", "/echo", "a"));
    const std::string reply = client.reply();
    return test::body_in(reply) == "a" && reply.find("Connection: close") != reply.npos;
  };
  EXPECT_TRUE(comes_true([&] {  // the drain has begun
    RawClient fresh(server->port());
    return closes(fresh) && fresh.is_closed();
  }));
  EXPECT_TRUE(closes(idle));
  held->reply({200, "text/plain", "done", {}});
  EXPECT_EQ(test::body_in(busy.reply()), "done");
  EXPECT_TRUE(busy.is_closed());
  thread.join();
  EXPECT_THROW(RawClient(server->port()), std::exception);
}

TEST_F(HttpServerTest, GivesNoticeBeforeADrainEnds) {
  start();
  RawClient busy(server->port()), idle(server->port());
  busy.send(request("GET", "/hold"));
  const std::shared_ptr<Exchange> held = paths.take_held();
  ASSERT_TRUE(held);
  server->drain(3s, [&] { held->reply({200, "text/plain", "cut", {}}); });
  EXPECT_EQ(test::body_in(busy.reply()), "cut");
  thread.join();
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(HttpServerTest, ListensOnAPathForThisUserOnly) {
  server = std::make_unique<HttpServer>(paths, HttpLimits());
  const std::string path = cat(testing::TempDir(), "/deltasane_socket_", ::getpid());
  server->listen_on_path(path);
  const auto open_to_others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  EXPECT_EQ(std::filesystem::status(path).permissions() & open_to_others, std::filesystem::perms::none);
  HttpServer second(paths, HttpLimits());
  EXPECT_THROW(second.listen_on_path(path), Error);
  EXPECT_THROW(second.listen_on_path(testing::TempDir()), Error);
}

}  // namespace
}  // namespace deltasane::serve
