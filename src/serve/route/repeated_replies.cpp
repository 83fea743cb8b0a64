#include "serve/route/repeated_replies.h"

#include <xxhash.h>

namespace deltasane::serve {
namespace {

constexpr size_t most_kept = 256;
constexpr size_t most_bytes = 1 << 20;  // of a reply that is kept

// What a client should try again has not been done.
bool is_final(int status) { return status < 500 && status != 408 && status != 409 && status != 429; }

}  // namespace

// Answers all that wait for it, and keeps what it said.
class RecordedReply final : public Exchange, public std::enable_shared_from_this<RecordedReply> {
 public:
  void reply(HttpReply reply) override {
    const std::lock_guard lock(mutex_);
    for (const auto& one : waiting_) one->reply(reply);
    is_kept_ = is_final(reply.status) && reply.body.size() <= most_bytes;
    reply_ = std::move(reply);
    end();
  }
  void begin_stream(HttpReply head) override {
    const std::lock_guard lock(mutex_);
    for (const auto& one : waiting_) one->begin_stream(head);
    reply_ = std::move(head);
    is_stream_ = true;
  }
  void write(std::string piece) override {
    const std::lock_guard lock(mutex_);
    for (const auto& one : waiting_) one->write(piece);
    if (reply_.body.size() + piece.size() > most_bytes) is_kept_ = false;
    if (is_kept_) reply_.body += piece;
  }
  void end_stream() override {
    const std::lock_guard lock(mutex_);
    for (const auto& one : waiting_) one->end_stream();
    end();
  }
  void on_gone(std::function<void()> call) override {
    const std::lock_guard lock(mutex_);
    if (!waiting_.empty() || has_ended_)
      gone_ = std::move(call);
    else
      call();
  }

  // False: what it said cannot be said again.
  bool attach(const std::shared_ptr<Exchange>& one) {
    const std::lock_guard lock(mutex_);
    if (!is_kept_) return false;
    if (has_ended_ && !is_stream_) {
      one->reply(reply_);
      return true;
    }
    if (is_stream_) {
      one->begin_stream({reply_.status, reply_.content_type, {}, reply_.headers});
      one->write(reply_.body);
      if (has_ended_) one->end_stream();
    }
    if (has_ended_) return true;
    waiting_.push_back(one);
    one->on_gone([self = weak_from_this(), key = one.get()] {
      if (const auto here = self.lock()) here->leave(key);
    });
    return true;
  }

 private:
  void end() {
    has_ended_ = true;
    waiting_.clear();
    gone_ = nullptr;
  }
  void leave(const Exchange* one) {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(waiting_, [&](const auto& other) { return other.get() == one; });
      if (!waiting_.empty() || has_ended_) return;
      is_kept_ = false;  // it is cancelled
      call.swap(gone_);
    }
    if (call) call();
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> waiting_;
  HttpReply reply_;
  std::function<void()> gone_;
  bool is_stream_ = false, has_ended_ = false, is_kept_ = true;
};

void RepeatedReplies::forget(const std::string& name) {
  const auto found = kept_.find(name);
  order_.erase(found->second.place);
  kept_.erase(found);
}

std::shared_ptr<Exchange> RepeatedReplies::take(const std::string& owner, const HttpRequest& request,
                                                std::shared_ptr<Exchange> exchange,
                                                Clock::time_point now) {
  const std::string_view key = request.header("idempotency-key");
  if (key.empty() || request.method != "POST") return exchange;
  if (!is_plain_name(key))
    throw Refusal(400, "invalid_value",
                  "header idempotency-key: expected 1 to 128 letters, digits and . _ -");
  const std::string name = cat(owner, " ", key), work = cat(request.path, "\n", request.body);
  const uint64_t digest = XXH3_64bits(work.data(), work.size());
  const std::lock_guard lock(mutex_);
  while (!order_.empty() &&
         (order_.size() >= most_kept || now - kept_.at(order_.front()).began > kept_time))
    forget(std::string(order_.front()));
  if (const auto found = kept_.find(name); found != kept_.end()) {
    if (found->second.digest != digest)
      throw Refusal(400, "idempotency_key_reused",
                    "header idempotency-key: expected a new one, found that of another request");
    if (found->second.reply->attach(exchange)) return nullptr;
    forget(name);
  }
  auto recorded = std::make_shared<RecordedReply>();
  recorded->attach(exchange);
  order_.push_back(name);
  kept_[name] = {recorded, digest, std::prev(order_.end()), now};
  return recorded;
}

}  // namespace deltasane::serve
