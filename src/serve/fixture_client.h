// A client of tests: raw bytes over a socket, so that it can say what no well-behaved one would.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace deltasane::serve::test {

class RawClient {
 public:
  explicit RawClient(uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);  // as much as the server takes
  void reset();                       // closes the connection with RST, not FIN

  // Up to the end of a reply with a length or in chunks, or of the connection; empty: it was closed
  // first. Chunks are joined.
  std::string reply(std::chrono::milliseconds most = std::chrono::seconds(20));
  std::string until(std::string_view mark);  // all up to and with these bytes, or the end
  bool is_closed();                          // after all that came was read

 private:
  bool receive(std::chrono::steady_clock::time_point end);

  int descriptor_;
  std::string input_;
  bool has_ended_ = false;
};

std::string request(std::string_view method, std::string_view path, std::string_view body = {},
                    std::string_view headers = {});
int status_in(std::string_view reply);             // of a reply with its head
std::string_view body_in(std::string_view reply);

// Whether it holds within ten seconds.
bool comes_true(const std::function<bool()>& holds);

}  // namespace deltasane::serve::test
