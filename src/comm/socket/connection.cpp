#include "comm/socket/connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/timing.h"

namespace deltasane::comm {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress local_address(const std::string& path) {
  SocketAddress found;
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  if (path.size() >= sizeof local.sun_path)
    fail(Fault::usage, "DELTASANE_ADDRESS: expected a path of less than ", sizeof local.sun_path,
         " bytes, found ", path.size(), ": ", path);
  std::ranges::copy(path, local.sun_path);
  std::memcpy(&found.storage, &local, sizeof local);
  found.length = sizeof local;
  return found;
}

struct HostAndPort {
  std::string host, port;
};

// HOST:PORT, or [HOST]:PORT for an IPv6 address.
HostAndPort host_and_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon == text.npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos)
    host.clear();
  if (host.empty())
    fail(Fault::usage,
         "DELTASANE_ADDRESS: expected HOST:PORT, [IPv6]:PORT or a path that begins with '/', found ",
         printable(text));
  const std::string port = text.substr(colon + 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535)
    fail(Fault::usage, "DELTASANE_ADDRESS: expected a port from 1 to 65535, found ",
         printable(port), " in ", printable(text));
  return {host, port};
}

SocketAddress address_of(const std::string& text) {
  if (text.starts_with('/')) return local_address(text);
  const HostAndPort parts = host_and_port(text);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int result = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &wanted, &list);
  if (result != 0)
    fail(Fault::usage, "DELTASANE_ADDRESS: expected a known host and port, found ",
         printable(text), ": ", ::gai_strerror(result));
  SocketAddress found;
  std::memcpy(&found.storage, list->ai_addr, list->ai_addrlen);
  found.length = list->ai_addrlen;
  ::freeaddrinfo(list);
  return found;
}

[[noreturn]] void fail_at(const std::string& address, const char* what) {
  fail(Fault::device, "DELTASANE_ADDRESS ", address, ": expected to ", what,
       ", found: ", std::strerror(errno));
}

Connection open_socket(const SocketAddress& address, const std::string& text) {
  Connection made(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) fail_at(text, "open a socket");
  return made;
}

// Small messages are sent without delay, and a lost machine is noticed within about a minute. Local
// sockets have none of these options, and need none.
void set_tcp_options(const Connection& connection) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(connection.socket(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
}

}  // namespace

Connection::~Connection() {
  if (socket_ >= 0) ::close(socket_);
}
Connection::Connection(Connection&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), peer_(std::move(other.peer_)) {}
Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(peer_, other.peer_);
  return *this;
}

void Connection::fail_exited(const char* why) const {
  fail(Fault::device, peer_, ": expected it to be running, found that it has exited (", why,
       "); see its own message for the reason");
}

void Connection::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail_exited(std::strerror(errno));
    bytes = bytes.subspan(size_t(sent));
  }
}

void Connection::receive(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_exited(std::strerror(errno));
    if (got == 0) fail_exited("it closed the connection");
    bytes = bytes.subspan(size_t(got));
  }
}

void Connection::check_open() const {
  pollfd one{socket_, POLLRDHUP, 0};
  if (::poll(&one, 1, 0) > 0) fail_exited("it closed the connection");
}

std::optional<size_t> Connection::receive_some(std::span<std::byte> bytes) {
  const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got > 0) return size_t(got);
  const bool later = got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
  return later ? std::optional(size_t{0}) : std::nullopt;
}

bool Connection::try_send(std::span<const std::byte> bytes) {
  return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         ssize_t(bytes.size());
}

void Connection::set_receive_timeout(double seconds) {
  const auto microseconds = int64_t(std::ceil(seconds * 1e6));
  const timeval limit{time_t(microseconds / 1000000), suseconds_t(microseconds % 1000000)};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

bool stays_on_this_machine(const std::string& address) {
  const SocketAddress resolved = address_of(address);
  if (resolved.storage.ss_family == AF_UNIX) return true;
  if (resolved.storage.ss_family == AF_INET) {
    sockaddr_in internet;
    std::memcpy(&internet, &resolved.storage, sizeof internet);
    return ntohl(internet.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 internet;
  std::memcpy(&internet, &resolved.storage, sizeof internet);
  return IN6_IS_ADDR_LOOPBACK(&internet.sin6_addr);
}

namespace {

// Removes a socket that an earlier job of this user left behind, and nothing else.
void remove_old_socket(const std::string& path, const SocketAddress& address) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    fail(Fault::usage, "DELTASANE_ADDRESS: expected a free name or an old socket of this user, "
         "found another file: ", path);
  const Connection probe = open_socket(address, path);
  if (::connect(probe.socket(), address.get(), address.length) == 0)
    fail(Fault::usage, "DELTASANE_ADDRESS: ", path,
         ": expected a free name, found a job that listens there; give another");
  if (errno == ECONNREFUSED) ::unlink(path.c_str());
}

std::pair<dev_t, ino_t> file_at(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace

Listener::Listener(const std::string& address) {
  const SocketAddress resolved = address_of(address);
  const bool is_local = address.starts_with('/');
  if (is_local) remove_old_socket(address, resolved);
  socket_ = open_socket(resolved, address);
  const int reuse = 1;
  ::setsockopt(socket_.socket(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  // Before there is a name: other users may not connect.
  if (is_local) ::fchmod(socket_.socket(), 0600);
  if (::bind(socket_.socket(), resolved.get(), resolved.length) != 0)
    fail_at(address, "listen there");
  if (is_local) path_ = address, file_ = file_at(address);
  if (::listen(socket_.socket(), 128) != 0) fail_at(address, "listen there");
}

Listener::~Listener() {
  if (!path_.empty() && file_at(path_) == file_) ::unlink(path_.c_str());
}

Connection Listener::accept(double seconds) {
  pollfd one{socket_.socket(), POLLIN, 0};
  if (::poll(&one, 1, int(std::ceil(std::max(0.0, seconds) * 1e3))) <= 0) return {};
  Connection made(::accept4(socket_.socket(), nullptr, nullptr, SOCK_CLOEXEC));
  if (made) set_tcp_options(made);
  return made;
}

Connection connect_to(const std::string& address, double seconds) {
  const SocketAddress resolved = address_of(address);
  const double until = seconds_now() + seconds;
  do {
    Connection made = open_socket(resolved, address);
    if (::connect(made.socket(), resolved.get(), resolved.length) == 0) {
      set_tcp_options(made);
      return made;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (seconds_now() < until);
  return {};
}

}  // namespace deltasane::comm
