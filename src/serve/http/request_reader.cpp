#include "serve/http/request_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "serve/http/head_check.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_line = 4096;  // of a chunk's size with its extensions, or a trailer

Refusal head_too_large(size_t limit) {
  return Refusal(431, "head_too_large",
                 cat("request head: expected at most ", limit, " bytes, found more"));
}

Refusal body_too_large(uint64_t limit) {
  return Refusal(413, "body_too_large",
                 cat("request body: expected at most ", limit, " bytes, found more"));
}

Refusal bad_chunk(std::string_view what) {
  return Refusal(400, "bad_chunk", cat("request body: expected ", what, ", found something else"));
}

// The line at the beginning, without CR LF; none: it is not whole yet.
std::optional<std::string_view> line_of(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view line = bytes.substr(0, end);
  if (line.size() > most_line) throw bad_chunk("a short line");
  if (end == bytes.size()) {
    const size_t lone = line.find('\r');
    if (lone != line.npos && lone + 1 < line.size()) throw bad_chunk("a line that ends in CR LF");
    return std::nullopt;
  }
  if (!line.ends_with('\r') || line.find('\r') + 1 != line.size())
    throw bad_chunk("a line that ends in CR LF");
  return line.substr(0, line.size() - 1);
}

}  // namespace

size_t RequestReader::feed(std::string_view bytes) {
  if (bytes.empty()) return 0;
  require(!has_head() || is_limited_, "the body has a limit");
  switch (stage_) {
    case Stage::head:
      return take_head(bytes);
    case Stage::length:
      return take_body(bytes, Stage::done);
    case Stage::chunk_size:
      return take_chunk_size(bytes);
    case Stage::chunk:
      return take_body(bytes, Stage::chunk_end);
    case Stage::chunk_end:
      if (bytes[0] != '\r' || (bytes.size() > 1 && bytes[1] != '\n'))
        throw bad_chunk("CR LF after a chunk");
      if (bytes.size() == 1) return 0;
      stage_ = Stage::chunk_size;
      return 2;
    case Stage::trailers:
      return take_trailer(bytes);
    case Stage::done:
      break;
  }
  return 0;
}

size_t RequestReader::take_head(std::string_view bytes) {
  const size_t before = head_.size(), room = limits_->head_bytes + 1 - before;
  head_ += bytes.substr(0, room);
  const size_t end = head_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
  if (end == head_.npos) {
    if (head_.size() > limits_->head_bytes) throw head_too_large(limits_->head_bytes);
    // An empty line of another kind would be waited for in vain.
    if (head_.find("\n\n") != head_.npos)
      throw Refusal(400, "bad_request_head", "request head: expected lines that end in CR LF");
    return std::min(bytes.size(), room);
  }
  head_.resize(end + 4);
  if (head_.size() > limits_->head_bytes) throw head_too_large(limits_->head_bytes);
  check_head(head_, *limits_);
  read_head();
  return head_.size() - before;
}

void RequestReader::read_head() {
  std::string_view rest = head_;
  const std::string_view line = rest.substr(0, rest.find("\r\n"));
  rest.remove_prefix(line.size() + 2);
  const size_t first = line.find(' '), last = line.rfind(' ');
  request_.method = line.substr(0, first);
  Target target = read_target(line.substr(first + 1, last - first - 1));
  request_.path = std::move(target.path), request_.query = std::move(target.query);
  is_http_1_1_ = line.ends_with("1.1");
  request_.headers = fields_of(rest);

  const std::string connection = lower_case(request_.header("connection"));
  keeps_alive_ = is_http_1_1_ ? connection.find("close") == connection.npos
                              : connection == "keep-alive";
  stage_ = Stage::done;
  if (const std::string_view length = request_.header("content-length"); !length.empty()) {
    std::from_chars(length.data(), length.data() + length.size(), left_);
    if (left_ > 0) stage_ = Stage::length;
  }
  if (!request_.header("transfer-encoding").empty()) stage_ = Stage::chunk_size;
  const std::string expect = lower_case(request_.header("expect"));
  if (!expect.empty() && expect != "100-continue")
    throw Refusal(417, "expectation", "header expect: expected 100-continue, found another");
  expects_continue_ = !expect.empty() && !is_done() && is_http_1_1_;
}

void RequestReader::set_body_limit(uint64_t bytes) {
  body_limit_ = bytes, is_limited_ = true;
  if (left_ > bytes) throw body_too_large(bytes);
}

size_t RequestReader::take_body(std::string_view bytes, Stage next) {
  const auto some = size_t(std::min<uint64_t>(left_, bytes.size()));
  request_.body += bytes.substr(0, some);
  left_ -= some;
  if (left_ == 0) stage_ = next;
  return some;
}

size_t RequestReader::take_chunk_size(std::string_view bytes) {
  const auto line = line_of(bytes);
  if (!line) return 0;
  const std::string_view digits = line->substr(0, line->find(';'));
  const char* const end = digits.data() + digits.size();
  const auto found = std::from_chars(digits.data(), end, left_, 16);
  if (digits.empty() || found.ptr != end || digits[0] == '-' || found.ec == std::errc::invalid_argument)
    throw bad_chunk("the size of a chunk");
  if (found.ec != std::errc() || left_ > body_limit_ - request_.body.size())
    throw body_too_large(body_limit_);
  stage_ = left_ == 0 ? Stage::trailers : Stage::chunk;
  return line->size() + 2;
}

// What trailers say is not used.
size_t RequestReader::take_trailer(std::string_view bytes) {
  const auto line = line_of(bytes);
  if (!line) return 0;
  trailer_bytes_ += line->size() + 2;
  if (trailer_bytes_ > limits_->head_bytes) throw head_too_large(limits_->head_bytes);
  if (line->empty()) stage_ = Stage::done;
  return line->size() + 2;
}

std::string RequestReader::take_body_piece() { return std::exchange(request_.body, {}); }

HttpRequest RequestReader::take_request() {
  require(is_done(), "the request is whole");
  return std::move(request_);
}

}  // namespace deltasane::serve
