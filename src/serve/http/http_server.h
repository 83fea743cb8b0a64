// Sockets: accepts connections, reads requests with limits on sizes, times and numbers, hands them
// to a handler and writes the replies. HTTP/1.1 and 1.0, connections that are kept, requests that
// follow each other without waiting, streams in chunks. TLS and compression are for a proxy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/http.h"

namespace deltasane::serve {

inline constexpr bool has_http_server = DELTASANE_HTTP_SERVER;  // this build has Boost's headers

inline constexpr std::chrono::milliseconds drain_notice{1000};

class HttpServer {
 public:
  HttpServer(HttpHandler& handler, const HttpLimits& limits);
  ~HttpServer();

  // A host's name or address, and a port; 0: any that is free. Fails where it cannot be had.
  void listen(const std::string& host, uint16_t port);
  void listen_on_path(const std::string& path);  // a local socket, for this user only
  uint16_t port() const;

  // Serves with this many threads until it was drained or stopped.
  void run(int threads);

  // From any thread: ends run() when no request is under way, or this time is over. Until then
  // requests are taken, and each is the last of its connection. `nearly_over` is called before the end
  // of the time, at drain_notice or half of it: what is written then still reaches the clients.
  void drain(std::chrono::milliseconds most, std::function<void()> nearly_over = {});
  void stop();  // ends run() at once

  // Calls with 1, 2, ... when the process is asked to end (SIGTERM, SIGINT), on a thread of run().
  void on_end_signals(std::function<void(int count)> call);

  size_t connections() const;

 private:
  struct Sockets;
  std::shared_ptr<Sockets> sockets_;  // replies that are not written yet keep it, too
};

}  // namespace deltasane::serve
