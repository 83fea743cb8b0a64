// HTTP as the routes see it, without sockets: a request that was read whole, and an exchange that
// takes its reply, at once or as a stream. Routes and their tests need nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace deltasane::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Takes a body as it comes, where it may be of any length.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // False: no more, until the function that it was made with is called. A Refusal is the reply.
  virtual bool take(std::string piece) = 0;
  virtual void abandon() = 0;  // the rest will not come
};

struct HttpRequest {
  std::string method;    // GET, POST, PUT, DELETE, ...
  std::string path;      // decoded, without the query
  std::string query;     // as it came, without '?'
  Headers headers;       // names in lower case, in the order they came
  std::string body;
  std::string peer;      // the client's address
  std::shared_ptr<BodyReader> body_reader{};  // it took the body; `body` is empty

  std::string_view header(std::string_view name) const;  // lower case; empty: there is none
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

// A request that is answered with an error. The wire's types follow from the status.
class Refusal : public Error {
 public:
  Refusal(int with_status, std::string with_code, const std::string& message,
          std::string with_param = {})
      : Error(Fault::usage, message),
        status(with_status),
        code(std::move(with_code)),
        param(std::move(with_param)) {}

  int status;
  std::string code, param;  // param: the field's path, or empty
  Headers headers{};
};

// Where the reply to one request goes. Any thread may call it; calls after the client has gone do
// nothing. Exactly one of `reply` and `begin_stream` ... `end_stream` is used.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void reply(HttpReply reply) = 0;
  virtual void begin_stream(HttpReply head) = 0;  // its body is not used
  virtual void write(std::string piece) = 0;
  virtual void end_stream() = 0;
  // Called once if the client goes away, or does not read, before the end of the reply; at once
  // where it already has. From then on nothing holds `call`, nor after the end.
  virtual void on_gone(std::function<void()> call) = 0;
};

struct HttpLimits {
  size_t head_bytes = 16 << 10, head_lines = 64;
  size_t body_bytes = 8 << 20;  // where HttpHandler::body_limit says nothing else
  std::chrono::milliseconds head_time{10'000};  // for the head, from its first byte
  std::chrono::milliseconds block_time{10'000};  // between two blocks of a body, or of a reply
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};
  std::chrono::milliseconds ping_time{15'000};  // of silence in a stream
  // No fewer of an address than the handler has use for, and twice as many of all.
  size_t connections = 1024, connections_of_address = 64, requests_of_connection = 10'000;
  size_t refused_connections = 64;  // that are told why, at a time
  size_t unread_bytes = 1 << 20;  // of a reply, that wait for the client
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The most bytes that the body of this request may have. The request has no body yet. A Refusal
  // is the reply.
  virtual size_t body_limit(const HttpRequest& head) = 0;
  // Who takes the body of this request as it comes; null: it is read whole, up to the limit. `resume`
  // may be called by any thread. A Refusal is the reply.
  virtual std::shared_ptr<BodyReader> begin_body(const HttpRequest&, std::function<void()> /*resume*/) {
    return nullptr;
  }
  virtual size_t useful_connections() const { return 0; }  // of one client, at a time
  // Called by several threads. Throws nothing.
  virtual void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) = 0;
};

Refusal with_retry(Refusal refusal);  // told to come back after a second
Refusal ending_refusal();             // of what is asked of a server that ends

// The reply of an error, as OpenAI's clients read it.
HttpReply error_reply(const Refusal& refusal);
std::string error_json(const Refusal& refusal);  // {"error": ...}, for streams, too
std::string_view reason_of(int status);          // "Not Found"

// The head of a reply, with the line that says where its body ends.
std::string reply_head(const HttpReply& reply, std::string_view end_line, bool keeps_alive,
                       std::string_view request_id = {});
std::string length_line(const HttpReply& reply);

// 1 to 128 of the letters, digits and ._- of ASCII.
bool is_plain_name(std::string_view text);
// The values of a name in a query, as they came: "a=1&b=2&a=3".
std::vector<std::string> query_values(std::string_view query, std::string_view name);

}  // namespace deltasane::serve
