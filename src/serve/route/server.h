// The handler of all requests: keys, hosts, and the route that a path names.
#pragma once

#include "serve/http/http.h"
#include "serve/route/repeated_replies.h"
#include "serve/route/route.h"

namespace deltasane::serve {

class Server final : public HttpHandler {
 public:
  explicit Server(Service& service) : service_(service) {}

  size_t body_limit(const HttpRequest& head) override;
  std::shared_ptr<BodyReader> begin_body(const HttpRequest& head,
                                         std::function<void()> resume) override;
  // Texts that are written, as many that wait, and some that ask how it goes.
  size_t useful_connections() const override {
    return size_t(2 * service_.settings.scheduler.batch) + 16;
  }
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override;

 private:
  // `exchange` becomes that through which it is answered.
  void answer(HttpRequest request, std::shared_ptr<Exchange>& exchange);

  Service& service_;
  RepeatedReplies repeated_;
};

}  // namespace deltasane::serve
