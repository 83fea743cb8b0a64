// Reliable byte streams between the processes of a job.
#pragma once

#include <cstddef>
#include <span>
#include <string>

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

// HOST:PORT, or a path that begins with '/'.
class Listener {
 public:
  explicit Listener(const std::string& address);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Connection accept(double seconds);  // empty on timeout

 private:
  Connection socket_;
  std::string path_;  // of a local socket; removed at the end
};

// Retries until a process listens there; empty on timeout.
Connection connect_to(const std::string& address, double seconds);

}  // namespace deltasane::comm
