// Bytes to and from another process of a job, in order and complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace deltasane::comm {

// A socket, closed at the end. Fails where the other side has ended, with its name.
class Connection {
 public:
  Connection() = default;
  explicit Connection(int socket) : socket_(socket) {}
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  explicit operator bool() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  void name_other(std::string name) { other_ = std::move(name); }

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> bytes);
  void expect_open() const;  // does not wait

  // How long receive waits for the next bytes; 0: until they come or the other side has ended.
  void wait_at_most(double seconds);

 private:
  [[noreturn]] void fail_ended(const char* why) const;

  int socket_ = -1;
  std::string other_ = "another process";
};

// The bytes that a plain value has in memory.
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

  Connection accept(double seconds);  // none when nobody came

 private:
  Connection socket_;
  std::string path_;  // of a local socket; removed at the end
};

// Tries again until somebody listens; none when nobody did for so long.
Connection connect_to(const std::string& address, double seconds);

}  // namespace deltasane::comm
