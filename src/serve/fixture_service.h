// A whole server in one process, without sockets: the shipped model, bytes as tokens.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/threads.h"
#include "model/registry.h"
#include "serve/route/server.h"
#include "text/byte_tokenizer.h"

namespace deltasane::serve::test {

// Keeps what a route sends.
class KeptExchange : public Exchange {
 public:
  void reply(HttpReply reply) override;
  void begin_stream(HttpReply head) override;
  void write(std::string piece) override;
  void end_stream() override;
  void on_gone(std::function<void()> call) override;

  void leave();  // the client goes away
  HttpReply wait();
  HttpReply so_far() const;  // of a stream
  size_t pieces() const;

 private:
  void end();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpReply reply_;
  std::function<void()> gone_;
  size_t pieces_ = 0;
  bool has_ended_ = false;
};

struct ServiceFixture {
  // `other`: instead of bytes as tokens; it outlives the fixture.
  explicit ServiceFixture(ServeSettings settings = {}, Keys keys = {},
                          const Tokenizer* other = nullptr);

  HttpReply call(std::string method, std::string path, const std::string& body = {},
                 Headers headers = {});
  std::shared_ptr<KeptExchange> begin(std::string method, std::string path,
                                      const std::string& body = {}, Headers headers = {});
  Json post(const std::string& path, const Json& body);  // expects 200

  ThreadPool threads{2};
  std::unique_ptr<LanguageModel> model;
  ByteTokenizer tokenizer;
  std::unique_ptr<Service> service;
  std::unique_ptr<Server> server;
};

// The JSON of each event of a stream; the last is the text [DONE].
std::vector<Json> events_in(const std::string& stream);

}  // namespace deltasane::serve::test
