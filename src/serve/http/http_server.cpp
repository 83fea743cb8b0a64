#include "serve/http/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "serve/http/connection.h"
#include "serve/http/refused_connection.h"

namespace deltasane::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Local = asio::local::stream_protocol;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

std::string peer_name(const tcp::socket& socket) {
  error_code error;
  const auto end = socket.remote_endpoint(error);
  return error ? std::string("unknown") : end.address().to_string();
}
std::string peer_name(const Local::socket&) { return "local"; }

void send_at_once(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
}
void send_at_once(Local::socket&) {}

}  // namespace

struct HttpServer::Sockets : std::enable_shared_from_this<HttpServer::Sockets> {
  // What an open connection holds.
  struct Place {
    Place(std::weak_ptr<Sockets> of, std::string address)
        : sockets(std::move(of)), peer(std::move(address)) {}
    ~Place() {
      if (const auto open = sockets.lock()) open->leave(*this);
    }
    const std::weak_ptr<Sockets> sockets;
    const std::string peer;
    std::weak_ptr<Connection> connection;  // with the mutex
  };

  Sockets(HttpHandler& with, const HttpLimits& wanted) : handler(with), limits(wanted) {
    const size_t useful = handler.useful_connections();
    limits.connections_of_address = std::max(limits.connections_of_address, useful);
    limits.connections = std::max(limits.connections, 2 * useful);
  }

  HttpHandler& handler;
  HttpLimits limits;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  Outbox outbox{io};
  tcp::acceptor tcp_acceptor{io};
  Local::acceptor local_acceptor{io};
  std::string local_path;
  asio::steady_timer drain_check{asio::make_strand(io)}, pause{io};
  std::atomic<bool> is_draining{false};
  asio::signal_set signals{io};
  int signals_taken = 0;
  std::function<void(int)> on_signal;

  std::atomic<size_t> refused{0};

  std::mutex mutex;  // of what follows
  std::set<Place*> places;
  std::map<std::string, size_t> by_address;

  // Throws Refusal: the reply to a connection too many.
  std::shared_ptr<Place> take_place(const std::string& peer) {
    const std::lock_guard lock(mutex);
    const auto expect = [](size_t most, size_t found, int status, const char* of) {
      if (found >= most)
        throw with_retry(Refusal(status, "connections",
                                 cat("connections", of, ": expected at most ", most,
                                     " at a time, found one more; try again later")));
    };
    expect(limits.connections, places.size(), 503, "");
    if (peer != "local")
      expect(limits.connections_of_address, by_address[peer], 429, " of this address");
    auto place = std::make_shared<Place>(weak_from_this(), peer);
    places.insert(place.get());
    ++by_address[peer];
    return place;
  }

  void leave(Place& place) {
    const std::lock_guard lock(mutex);
    places.erase(&place);
    const auto count = by_address.find(place.peer);
    if (--count->second == 0) by_address.erase(count);
  }

  void refuse(Socket socket, const Refusal& why) {
    if (refused >= limits.refused_connections) return;  // closes it
    ++refused;
    refuse_connection(std::move(socket), why,
                      std::shared_ptr<void>(nullptr, [open = weak_from_this()](void*) {
                        if (const auto sockets = open.lock()) --sockets->refused;
                      }));
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    acceptor.async_accept(
        asio::any_io_executor(asio::make_strand(io)), [this, &acceptor](const error_code& error, typename Acceptor::protocol_type::socket socket) {
          if (!acceptor.is_open()) return;
          if (!error) {
            take(std::move(socket));
          } else if (error != asio::error::connection_aborted) {  // too many open files
            pause.expires_after(std::chrono::milliseconds(100));
            pause.async_wait([this, &acceptor](const error_code&) {
              if (acceptor.is_open()) accept(acceptor);
            });
            return;
          }
          accept(acceptor);
        });
  }

  template <class Accepted>
  void take(Accepted socket) {
    const std::string peer = peer_name(socket);
    send_at_once(socket);
    std::shared_ptr<Place> place;
    try {
      place = take_place(peer);
    } catch (const Refusal& why) {
      return refuse(std::move(socket), why);
    }
    const auto connection = std::make_shared<Connection>(Socket(std::move(socket)), peer, handler,
                                                         limits, place, weak_from_this(), outbox);
    {
      const std::lock_guard lock(mutex);
      place->connection = connection;
    }
    if (is_draining) connection->drain();
    connection->begin();
  }

  std::vector<std::shared_ptr<Connection>> all() {
    const std::lock_guard lock(mutex);
    std::vector<std::shared_ptr<Connection>> found;
    for (const Place* const place : places)
      if (auto connection = place->connection.lock()) found.push_back(std::move(connection));
    return found;
  }

  void stop_accepting() {
    error_code ignored;
    tcp_acceptor.close(ignored);
    local_acceptor.close(ignored);
    if (!local_path.empty()) ::unlink(local_path.c_str());
    local_path.clear();
  }

  void drain(std::chrono::milliseconds most, std::function<void()> nearly_over) {
    const auto end = Clock::now() + most;
    const auto notice = end - std::min(drain_notice, most / 2);
    asio::post(drain_check.get_executor(), [this, end, notice, nearly_over = std::move(nearly_over)] {
      is_draining = true;
      for (const auto& one : all()) one->drain();
      check_drained(end, notice, nearly_over);
    });
  }

  // Connections without a request do not hold the end up; they are asked a few times a second.
  void check_drained(Clock::time_point end, Clock::time_point notice,
                     std::function<void()> nearly_over) {
    const bool is_over = std::ranges::none_of(all(), [](const auto& one) { return one->is_busy(); });
    if (is_over || Clock::now() >= end) {
      stop_accepting();
      for (const auto& one : all()) one->cut();
      return stop_when_closed(Clock::now() + drain_notice);
    }
    if (nearly_over && Clock::now() >= notice) std::exchange(nearly_over, nullptr)();
    drain_check.expires_after(std::chrono::milliseconds(20));
    drain_check.async_wait([=, this](const error_code& error) {
      if (!error) check_drained(end, notice, nearly_over);
    });
  }

  void stop_when_closed(Clock::time_point latest) {
    if (all().empty() || Clock::now() >= latest) return io.stop();
    drain_check.expires_after(std::chrono::milliseconds(2));
    drain_check.async_wait([=, this](const error_code& error) {
      if (!error) stop_when_closed(latest);
    });
  }

  void wait_for_signal() {
    signals.async_wait([this](const error_code& error, int) {
      if (error) return;
      on_signal(++signals_taken);
      wait_for_signal();
    });
  }
};

HttpServer::HttpServer(HttpHandler& handler, const HttpLimits& limits)
    : sockets_(std::make_shared<Sockets>(handler, limits)) {}

HttpServer::~HttpServer() { sockets_->stop_accepting(); }

void HttpServer::listen(const std::string& host, uint16_t port) {
  error_code error;
  tcp::resolver resolver(sockets_->io);
  const auto found = resolver.resolve(host, cat(port), tcp::resolver::passive, error);
  if (error || found.empty())
    fail(Fault::usage, "host ", host, ": expected a name or an address of this machine, found ",
         error.message());
  const tcp::endpoint end = *found.begin();
  tcp::acceptor& acceptor = sockets_->tcp_acceptor;
  acceptor.open(end.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(end, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    fail(Fault::usage, "address ", host, ":", port, ": expected one that is free, found: ",
         error.message(), "; choose another port");
  sockets_->accept(acceptor);
}

void HttpServer::listen_on_path(const std::string& path) {
  error_code error;
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode))
      fail(Fault::usage, path, ": expected a socket or nothing, found another file");
    Local::socket test(sockets_->io);
    test.connect(Local::endpoint(path), error);
    if (!error) fail(Fault::usage, path, ": expected no server there, found one that answers");
    ::unlink(path.c_str());
    error.clear();
  }
  Local::acceptor& acceptor = sockets_->local_acceptor;
  const mode_t before = ::umask(0077);
  acceptor.open(Local(), error);
  if (!error) acceptor.bind(Local::endpoint(path), error);
  ::umask(before);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) fail(Fault::usage, path, ": expected a socket to be made there: ", error.message());
  sockets_->local_path = path;
  sockets_->accept(acceptor);
}

uint16_t HttpServer::port() const { return sockets_->tcp_acceptor.local_endpoint().port(); }

void HttpServer::run(int threads) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([this] { sockets_->io.run(); });
  sockets_->io.run();
  for (std::thread& one : others) one.join();
}

void HttpServer::drain(std::chrono::milliseconds most, std::function<void()> nearly_over) {
  sockets_->drain(most, std::move(nearly_over));
}
void HttpServer::stop() { sockets_->io.stop(); }

void HttpServer::on_end_signals(std::function<void(int)> call) {
  sockets_->on_signal = std::move(call);
  sockets_->signals.add(SIGTERM);
  sockets_->signals.add(SIGINT);
  sockets_->wait_for_signal();
}

size_t HttpServer::connections() const {
  const std::lock_guard lock(sockets_->mutex);
  return sockets_->places.size();
}

}  // namespace deltasane::serve
