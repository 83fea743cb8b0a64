// Reliable byte streams between the processes of a job.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace deltasane::comm {

// An owned socket. Operations fail, naming the peer, once the peer has exited.
class Connection {
 public:
  Connection() = default;
  explicit Connection(int socket) : socket_(socket) {}
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  explicit operator bool() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  void set_peer_name(std::string name) { peer_ = std::move(name); }

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);
  void check_open() const;  // does not block

  // For peers that are not known yet, without waiting: receives what is there, up to this much;
  // nothing where the peer has closed. Sends all at once, or says that it could not.
  std::optional<size_t> receive_some(std::span<std::byte> bytes);
  bool try_send(std::span<const std::byte> bytes);

  // 0: receive blocks until bytes arrive or the peer exits.
  void set_receive_timeout(double seconds);

 private:
  [[noreturn]] void fail_exited(const char* why) const;

  int socket_ = -1;
  std::string peer_ = "another process";
};

// The object representation of a trivially copyable value.
template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Whether only processes of this machine can connect: a loopback address, or a local socket.
bool stays_on_this_machine(const std::string& address);

// HOST:PORT, or a path that begins with '/', where nothing is but a socket that an earlier job left.
class Listener {
 public:
  explicit Listener(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Connection accept(double seconds);  // empty on timeout
  int socket() const { return socket_.socket(); }

 private:
  Connection socket_;
  std::string path_;  // of a local socket; removed at the end, if it is still the same
  std::pair<dev_t, ino_t> file_;
};

// Retries until a process listens there; empty on timeout.
Connection connect_to(const std::string& address, double seconds);

}  // namespace deltasane::comm
