#include "serve/fixture_service.h"

#include <gtest/gtest.h>

namespace deltasane::serve::test {

void KeptExchange::end() {
  has_ended_ = true;
  changed_.notify_all();
}
void KeptExchange::reply(HttpReply reply) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(has_ended_) << "a second reply";
  reply_ = std::move(reply);
  end();
}
void KeptExchange::begin_stream(HttpReply head) {
  const std::lock_guard lock(mutex_);
  reply_ = std::move(head);
}
void KeptExchange::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(has_ended_) << "a piece after the end";
  reply_.body += piece;
  ++pieces_;
  changed_.notify_all();
}
void KeptExchange::end_stream() {
  const std::lock_guard lock(mutex_);
  end();
}
void KeptExchange::on_gone(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  gone_ = std::move(call);
}
void KeptExchange::leave() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    call.swap(gone_);
  }
  if (call) call();
}
size_t KeptExchange::pieces() const {
  const std::lock_guard lock(mutex_);
  return pieces_;
}
HttpReply KeptExchange::so_far() const {
  const std::lock_guard lock(mutex_);
  return reply_;
}
HttpReply KeptExchange::wait() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return has_ended_; }))
    ADD_FAILURE() << "no reply came";
  return reply_;
}

ServiceFixture::ServiceFixture(ServeSettings settings, Keys keys, const Tokenizer* other)
    : model(open_model(fs::path(DELTASANE_SOURCE) / "models/arithmetic-sane-3.safetensors", {})) {
  if (settings.model_name.empty()) settings.model_name = "small";
  settings.sampling.seed = 5;
  const Tokenizer& used = other ? *other : tokenizer;
  service = std::make_unique<Service>(*model, used, chat_template_of(used), kernel::Cpu{threads},
                                      std::move(settings), std::move(keys));
  server = std::make_unique<Server>(*service);
  service->scheduler.start();
}

std::shared_ptr<KeptExchange> ServiceFixture::begin(std::string method, std::string path,
                                                    const std::string& body, Headers headers) {
  HttpRequest request{std::move(method), std::move(path), {}, std::move(headers), body, "test"};
  if (!body.empty() && request.header("content-type").empty())
    request.headers.emplace_back("content-type", "application/json");
  auto exchange = std::make_shared<KeptExchange>();
  server->handle(std::move(request), exchange);
  return exchange;
}

HttpReply ServiceFixture::call(std::string method, std::string path, const std::string& body,
                               Headers headers) {
  return begin(std::move(method), std::move(path), body, std::move(headers))->wait();
}

Json ServiceFixture::post(const std::string& path, const Json& body) {
  const HttpReply reply = call("POST", path, dump(body));
  EXPECT_EQ(reply.status, 200) << reply.body;
  return Json::parse(reply.body);
}

std::vector<Json> events_in(const std::string& stream) {
  std::vector<Json> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const size_t data = stream.find("data: ", at);
    EXPECT_LT(data, end);
    const std::string text = stream.substr(data + 6, end - data - 6);
    events.push_back(text == "[DONE]" ? Json(text) : Json::parse(text));
    at = end + 2;
  }
  return events;
}

}  // namespace deltasane::serve::test
