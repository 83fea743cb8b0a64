// One HTTP request out of a stream of bytes: its head, checked (head_check.h), then its body, with a
// length or in chunks. No sockets: the server and the fuzzer feed it alike.
//
// Boost.Beast's parser is not used: that of Debian 12 takes "0x2" for the size of a last chunk and
// lines that continue others, and whatever two programs on the way read differently smuggles
// requests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace deltasane::serve {

class RequestReader {
 public:
  explicit RequestReader(const HttpLimits& limits) : limits_(&limits) {}

  // Takes bytes up to the end of the head, or of the body, and says how many it took. It takes the
  // lines of chunks whole, or not yet. Throws Refusal.
  size_t feed(std::string_view bytes);

  bool has_begun() const { return !head_.empty(); }  // the first byte is there
  bool has_head() const { return stage_ != Stage::head; }  // request() has all but the body
  bool is_done() const { return stage_ == Stage::done; }
  const HttpRequest& request() const { return request_; }
  HttpRequest take_request();  // with its body; when it is done
  std::string take_body_piece();  // what came of the body since the last piece

  // When the head is there, before more is fed: throws Refusal where the body is announced larger.
  void set_body_limit(uint64_t bytes);

  bool keeps_alive() const { return keeps_alive_; }  // the client can send another request
  bool is_http_1_1() const { return is_http_1_1_; }  // it understands chunks
  bool expects_continue() const { return expects_continue_; }  // before it sends the body

 private:
  enum class Stage { head, length, chunk_size, chunk, chunk_end, trailers, done };
  size_t take_head(std::string_view bytes);
  void read_head();
  size_t take_body(std::string_view bytes, Stage next);
  size_t take_chunk_size(std::string_view bytes);
  size_t take_trailer(std::string_view bytes);

  const HttpLimits* limits_;
  Stage stage_ = Stage::head;
  std::string head_;
  HttpRequest request_;
  bool keeps_alive_ = false, is_http_1_1_ = false, expects_continue_ = false, is_limited_ = false;
  uint64_t left_ = 0;        // bytes of the body, or of the chunk
  uint64_t body_limit_ = 0;
  size_t trailer_bytes_ = 0;
};

}  // namespace deltasane::serve
