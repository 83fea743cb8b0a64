#include "serve/fixture_client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <thread>

#include "base/error.h"

namespace deltasane::serve::test {

using Clock = std::chrono::steady_clock;

RawClient::RawClient(uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    fail(Fault::device, "client: expected a connection, found none");
}

RawClient::~RawClient() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(size_t(sent));
  }
}

void RawClient::reset() {
  const linger now{1, 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(descriptor_);
  descriptor_ = -1;
}

bool RawClient::receive(Clock::time_point end) {
  if (has_ended_) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  pollfd wait{descriptor_, POLLIN, 0};
  if (left.count() <= 0 || ::poll(&wait, 1, int(left.count())) <= 0) return false;
  char block[65536];
  const ssize_t count = ::recv(descriptor_, block, sizeof block, 0);
  has_ended_ = count <= 0;
  if (count > 0) input_.append(block, size_t(count));
  return count > 0;
}

std::string RawClient::until(std::string_view mark) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  size_t at;
  while ((at = input_.find(mark)) == input_.npos && receive(end)) {
  }
  const size_t length = at == input_.npos ? input_.size() : at + mark.size();
  const std::string found = input_.substr(0, length);
  input_.erase(0, length);
  return found;
}

std::string RawClient::reply(std::chrono::milliseconds most) {
  const auto end = Clock::now() + most;
  const auto wait_for = [&](size_t bytes) {
    while (input_.size() < bytes && receive(end)) {
    }
    return input_.size() >= bytes;
  };
  const auto take = [&](size_t bytes) {
    const std::string found = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return found;
  };
  std::string head = until("\r\n\r\n");
  if (head.starts_with("HTTP/1.1 100 ")) head = until("\r\n\r\n");
  if (!head.ends_with("\r\n\r\n")) return head;
  if (const size_t at = head.find("Content-Length: "); at != head.npos) {
    size_t length = 0;
    std::from_chars(head.data() + at + 16, head.data() + head.size(), length);
    wait_for(length);
    return head + take(length);
  }
  if (head.find("Transfer-Encoding: chunked") == head.npos) {
    while (receive(end)) {
    }
    return head + take(input_.size());
  }
  for (;;) {
    const std::string line = until("\r\n");
    size_t length = 0;
    std::from_chars(line.data(), line.data() + line.size(), length, 16);
    if (!wait_for(length + 2)) return head;
    head += take(length);
    take(2);
    if (length == 0) return head;
  }
}

bool RawClient::is_closed() {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (receive(end)) {
  }
  return has_ended_;
}

std::string request(std::string_view method, std::string_view path, std::string_view body,
                    std::string_view headers) {
  std::string text = cat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers);
  if (method != "GET" && method != "DELETE")
    text += cat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n");
  return text + cat("\r\n", body);
}

int status_in(std::string_view reply) {
  int status = 0;
  if (reply.starts_with("HTTP/1.1 ")) std::from_chars(reply.data() + 9, reply.data() + 12, status);
  return status;
}

std::string_view body_in(std::string_view reply) {
  const size_t at = reply.find("\r\n\r\n");
  return at == reply.npos ? std::string_view() : reply.substr(at + 4);
}

bool comes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 5000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace deltasane::serve::test
