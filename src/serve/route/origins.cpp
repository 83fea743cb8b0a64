#include "serve/route/origins.h"

#include <algorithm>

#include "serve/http/head_check.h"

namespace deltasane::serve {
namespace {

class OriginExchange final : public Exchange {
 public:
  OriginExchange(std::shared_ptr<Exchange> to, std::string origin)
      : to_(std::move(to)), origin_(std::move(origin)) {}
  void reply(HttpReply reply) override { to_->reply(marked(std::move(reply))); }
  void begin_stream(HttpReply head) override { to_->begin_stream(marked(std::move(head))); }
  void write(std::string piece) override { to_->write(std::move(piece)); }
  void end_stream() override { to_->end_stream(); }
  void on_gone(std::function<void()> call) override { to_->on_gone(std::move(call)); }

 private:
  HttpReply marked(HttpReply reply) const {
    reply.headers.emplace_back("Access-Control-Allow-Origin", origin_);
    reply.headers.emplace_back("Access-Control-Expose-Headers",
                               "x-request-id, x-deltasane-ignored, retry-after");
    reply.headers.emplace_back("Vary", "Origin");
    return reply;
  }
  std::shared_ptr<Exchange> to_;
  std::string origin_;
};

}  // namespace

bool is_origin(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (text.starts_with(scheme)) return !host_name(text.substr(scheme.size())).empty();
  return false;
}

std::string allowed_origin(const HttpRequest& request, std::span<const std::string> allowed) {
  const std::string_view origin = request.header("origin");
  return std::ranges::find(allowed, origin) == allowed.end() ? std::string() : std::string(origin);
}

bool is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.header("access-control-request-method").empty();
}

HttpReply preflight_reply() {
  return {204,
          {},
          {},
          {{"Access-Control-Allow-Methods", "GET, POST, PUT, DELETE"},
           {"Access-Control-Allow-Headers",
            "authorization, content-type, idempotency-key, last-event-id, x-request-id, x-session-id"},
           {"Access-Control-Max-Age", "600"}}};
}

std::shared_ptr<Exchange> for_origin(std::shared_ptr<Exchange> to, std::string origin) {
  return std::make_shared<OriginExchange>(std::move(to), std::move(origin));
}

}  // namespace deltasane::serve
