#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/cat.h"
#include "serve/fixture_client.h"
#include "serve/http/http_server.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

using serve::test::RawClient;
using serve::test::request;
using serve::test::status_in;

const std::string shipped_model = DELTASANE_SOURCE "/models/arithmetic-sane-3.safetensors";

// The program, until it is asked to end.
class Served {
 public:
  explicit Served(std::vector<std::string> words) {
    words.insert(words.begin(), {DELTASANE_PROGRAM, "serve", shipped_model, "--port", "0"});
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]), ::close(ends[1]);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string line;
    for (char c; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(ends[0]);
    const size_t colon = line.rfind(':');
    port_ = colon == line.npos ? uint16_t(0) : uint16_t(std::atoi(line.c_str() + colon + 1));
    EXPECT_NE(port_, 0) << line;
  }
  ~Served() {
    if (process_ > 0) ::kill(process_, SIGKILL), wait();
  }
  void tell(int number) const { ::kill(process_, number); }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  uint16_t port() const { return port_; }

 private:
  pid_t process_ = -1;
  uint16_t port_ = 0;
};

struct ServeCommand : testing::Test {
  void SetUp() override {
    if (!serve::has_http_server) GTEST_SKIP() << "this build has no Boost";
  }
};

TEST_F(ServeCommand, EndsWhenItsRepliesHave) {
  Served server({"--drain", "20"});
  RawClient busy(server.port()), idle(server.port());
  busy.send(request("POST", "/v1/completions",
                    R"({"prompt":"User: hi","max_tokens":60,"ignore_eos":true,"stream":true})"));
  EXPECT_FALSE(busy.until("data: ").empty());
  server.tell(SIGTERM);
  EXPECT_NE(busy.until("[DONE]").find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_TRUE(idle.is_closed());
}

// What balancers ask, and what clients of streams read.
TEST_F(ServeCommand, TellsThatItEnds) {
  Served server({"--drain", "4"});
  const auto ask = [&](RawClient& client, std::string_view path) {
    client.send(request("GET", path));
    return client.reply();
  };
  const std::string body = R"("max_tokens":100000000,"ignore_eos":true,"stream":true})";
  RawClient text(server.port()), chat(server.port()), turn(server.port()), kept(server.port());
  text.send(request("POST", "/v1/completions", R"({"prompt":"a",)" + body));
  chat.send(request("POST", "/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":"a"}],"grammar":"root ::= [a-z]+",)" + body));
  turn.send(request("POST", "/v1/responses",
                    R"({"input":"a","grammar":"root ::= [a-z]+","max_output_tokens":100000000,"stream":true})"));
  EXPECT_FALSE(turn.until("output_text.delta").empty());
  EXPECT_FALSE(text.until("data: ").empty());
  EXPECT_FALSE(chat.until("data: ").empty());
  EXPECT_EQ(status_in(ask(kept, "/ready")), 200);
  server.tell(SIGTERM);
  std::string ready;
  for (int i = 0; i < 200 && status_in(ready) != 503; ++i) {
    RawClient fresh(server.port());
    ready = ask(fresh, "/ready");
  }
  EXPECT_EQ(status_in(ready), 503) << ready;
  const std::string health = ask(kept, "/health");
  EXPECT_EQ(status_in(health), 200) << health;
  EXPECT_NE(health.find("Connection: close"), health.npos) << health;
  RawClient late(server.port());
  const std::string refused = ask(late, "/v1/models");
  EXPECT_EQ(status_in(refused), 503) << refused;
  EXPECT_NE(refused.find("Retry-After: "), refused.npos) << refused;
  for (RawClient* const one : {&text, &chat}) {
    const std::string remaining = one->until("[DONE]");
    const size_t at = remaining.rfind("data: {");
    ASSERT_NE(at, remaining.npos) << remaining;
    const std::string last = remaining.substr(at);
    EXPECT_NE(last.find("\"finish_reason\":\"error\""), last.npos) << last;
    EXPECT_NE(last.find("shutting down"), last.npos) << last;
    EXPECT_NE(last.find("[DONE]"), last.npos) << last;
  }
  turn.until("event: response.failed\ndata: ");
  const std::string failed = turn.until("\n\n");
  EXPECT_NE(failed.find("\"status\":\"failed\""), failed.npos) << failed;
  EXPECT_NE(failed.find("shutting down"), failed.npos) << failed;
  EXPECT_EQ(server.wait(), 0);
}

TEST_F(ServeCommand, EndsAtOnceWhenToldTwice) {
  Served server({"--drain", "600"});
  RawClient busy(server.port());
  busy.send(request("POST", "/v1/completions",
                    R"({"prompt":"a","max_tokens":100000000,"ignore_eos":true,"stream":true})"));
  EXPECT_FALSE(busy.until("data: ").empty());
  server.tell(SIGTERM);
  busy.until("data: ");
  const auto begin = std::chrono::steady_clock::now();
  server.tell(SIGINT);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(ServeCommand, ChecksHostsAndKeys) {
  {
    Served server({});
    RawClient client(server.port());
    client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    EXPECT_EQ(status_in(client.reply()), 403);
  }
  ::setenv("DELTASANE_API_KEY", "the-key-of-the-test", 1);
  Served server({});
  ::unsetenv("DELTASANE_API_KEY");
  RawClient client(server.port());
  client.send(request("GET", "/v1/models") + request("GET", "/health"));
  EXPECT_EQ(status_in(client.reply()), 401);
  RawClient other(server.port());
  other.send(request("GET", "/v1/models", {}, "Authorization: Bearer the-key-of-the-test\r\n"));
  EXPECT_EQ(status_in(other.reply()), 200);
}

// What people try first is answered rightly.
TEST_F(ServeCommand, ItsExampleHasTheRightAnswer) {
  const std::string help = test::run({DELTASANE_PROGRAM, "serve", "--help"}).output;
  const size_t begin = help.find("-d '") + 4;
  const std::string body = help.substr(begin, help.find('\'', begin) - begin);
  EXPECT_NE(body.find("3+4=?"), body.npos) << help;
  Served server({});
  RawClient client(server.port());
  client.send(request("POST", "/v1/completions", "{\"temperature\": 0, " + body.substr(1)));
  const std::string reply = client.reply();
  EXPECT_NE(reply.find("\"text\":\" 7"), reply.npos) << body << reply;
}

// DELTASANE_KILL_ROUNDS=100: so many kills, while states are written.
TEST_F(ServeCommand, LosesNothingWhenKilled) {
  const char* const wanted = std::getenv("DELTASANE_KILL_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 3;
  const test::Scratch scratch;
  const std::string folder = (scratch.path() / "states").string();
  std::vector<std::pair<std::string, size_t>> kept;  // ids that the server told, and their positions
  for (int round = 0; round <= rounds; ++round) {
    Served server({"--states", folder, "--threads", "1"});
    const size_t first = kept.size() > 40 ? kept.size() - 40 : 0;  // the oldest were seen often enough
    for (size_t i = first; i < kept.size(); ++i) {
      RawClient client(server.port());
      client.send(request("GET", cat("/v1/states/", kept[i].first, "/heads")));
      const std::string reply = client.reply();
      ASSERT_EQ(status_in(reply), 200) << round << ": " << reply;
      ASSERT_NE(reply.find(cat("\"position\":", kept[i].second, ",")), std::string::npos) << reply;
    }
    if (round == rounds) break;
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30 + 37 * (round % 13)));
      server.tell(SIGKILL);
    });
    for (;;) {
      const size_t length = 1 + kept.size() % 23;
      std::string reply;
      try {
        RawClient client(server.port());
        client.send(request("POST", "/v1/states", cat("{\"prompt\":\"", std::string(length, 'a'), "\"}")));
        reply = client.reply();
      } catch (const std::exception&) {  // no connection
      }
      const size_t at = reply.find("\"id\":\"state_");
      if (at == reply.npos || reply.size() < at + 44) break;  // it was killed
      kept.emplace_back(reply.substr(at + 6, 38), length);
    }
    killer.join();
    EXPECT_EQ(server.wait(), 128 + SIGKILL);
  }
  EXPECT_GT(kept.size(), 0u);
}

TEST_F(ServeCommand, SaysWhatIsMisused) {
  const auto expect = [](const std::vector<std::string>& flags, const std::string& part) {
    std::vector<std::string> words{DELTASANE_PROGRAM, "serve", shipped_model};
    words.insert(words.end(), flags.begin(), flags.end());
    const test::Outcome outcome = test::run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  };
  expect({"--host", "0.0.0.0"}, "expected an API key");
  expect({"--port", "70000"}, "expected 0 to 65535");
  expect({"--host", "no.such.host.invalid", "--no-auth"}, "expected a name or an address");
  expect({"--batch", "0"}, "expected 1 to 512");
  expect({"--demo"}, "expected a MODEL or --demo, found both");
  expect({"--origin", "chat.example"}, "expected an origin such as");
  const Served server({});
  expect({"--port", cat(server.port())}, "expected one that is free");
}

struct Clients : ServeCommand {
  static test::Outcome python(std::vector<std::string> words) {
    const char* const named = std::getenv("DELTASANE_PYTHON");
    words.insert(words.begin(), {"env", "HF_HUB_OFFLINE=1", named ? named : "python3",
                                 DELTASANE_SOURCE "/test/support/serve_clients.py"});
    return test::run(words);
  }
  static void expect_success(const std::string& client) {
    const test::Outcome outcome = python({client, DELTASANE_PROGRAM, shipped_model});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
};

TEST_F(Clients, OpenaiTalksToTheServer) {
  if (python({"imports", "openai"}).exit_code != 0) GTEST_SKIP() << "this Python has no openai";
  expect_success("openai");
}

TEST_F(Clients, LangchainTalksToTheServer) {
  if (python({"imports", "langchain_openai"}).exit_code != 0)
    GTEST_SKIP() << "this Python has no langchain_openai";
  expect_success("langchain");
}

TEST_F(Clients, CurlTalksToTheServer) {
  if (test::run({"curl", "--version"}).exit_code != 0) GTEST_SKIP() << "there is no curl";
  expect_success("curl");
}

TEST_F(Clients, GuidellmMeasuresTheServer) {
  if (python({"imports", "guidellm"}).exit_code != 0) GTEST_SKIP() << "this Python has no guidellm";
  expect_success("guidellm");
}

// Its requests, without itself.
TEST_F(Clients, OpenWebUiTalksToTheServer) {
  if (python({"imports", "urllib"}).exit_code != 0) GTEST_SKIP() << "there is no Python";
  expect_success("open_webui");
}

// serve_load.py --clients 256 --seconds 600 is the same for longer.
TEST_F(Clients, KeepTheirSecrets) {
  if (python({"imports", "asyncio"}).exit_code != 0) GTEST_SKIP() << "there is no Python";
  const char* const named = std::getenv("DELTASANE_PYTHON");
  const test::Outcome outcome =
      test::run({named ? named : "python3", DELTASANE_SOURCE "/test/support/serve_load.py", DELTASANE_PROGRAM,
                 shipped_model, "--clients", "12", "--seconds", "1", "--threads", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// At 400 and 1600 pixels, light and dark: nothing is asked of others, nothing is said on the console.
TEST_F(Clients, ChromiumShowsThePage) {
  if (test::run({"chromium", "--version"}).exit_code != 0) GTEST_SKIP() << "there is no chromium";
  if (python({"imports", "playwright"}).exit_code != 0) GTEST_SKIP() << "this Python has no playwright";
  const test::Scratch scratch;
  const char* const named = std::getenv("DELTASANE_PYTHON");
  const test::Outcome outcome =
      test::run({named ? named : "python3", DELTASANE_SOURCE "/test/support/serve_page.py",
                 DELTASANE_PROGRAM, scratch.path().string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Every score is that of `deltasane score`, to the last bit.
TEST_F(Clients, LmEvaluationHarnessScoresAsScoreDoes) {
  if (python({"imports", "lm_eval", "tenacity"}).exit_code != 0) GTEST_SKIP() << "this Python has no lm_eval";
  expect_success("lm_eval");
}

}  // namespace
}  // namespace deltasane::cli
