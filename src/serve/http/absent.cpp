// A build without Boost's headers has no sockets: what needs them says so.
#include "serve/http/http_server.h"

namespace deltasane::serve {
namespace {

[[noreturn]] void no_server() {
  fail(Fault::usage,
       "server: expected a build with Boost's headers, found one without; install libboost-dev and "
       "build again");
}

}  // namespace

struct HttpServer::Sockets {};
HttpServer::HttpServer(HttpHandler&, const HttpLimits&) { no_server(); }
HttpServer::~HttpServer() = default;
void HttpServer::listen(const std::string&, uint16_t) { no_server(); }
void HttpServer::listen_on_path(const std::string&) { no_server(); }
uint16_t HttpServer::port() const { no_server(); }
void HttpServer::run(int) { no_server(); }
void HttpServer::drain(std::chrono::milliseconds, std::function<void()>) { no_server(); }
void HttpServer::stop() { no_server(); }
void HttpServer::on_end_signals(std::function<void(int)>) { no_server(); }
size_t HttpServer::connections() const { no_server(); }

}  // namespace deltasane::serve
