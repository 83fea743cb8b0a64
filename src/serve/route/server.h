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
  void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) override;

 private:
  // `exchange` becomes that through which it is answered.
  void answer(HttpRequest request, std::shared_ptr<Exchange>& exchange);

  Service& service_;
  RepeatedReplies repeated_;
};

}  // namespace deltasane::serve
