#include "text/vocabulary/cursor.h"

#include <charconv>

namespace deltasane {

void Cursor::reject(std::string_view what) const {
  location_.reject("column ", next_ + 1, ": expected ", what, ", found ",
                   done() ? std::string("the end") : printable(rest()));
}

char Cursor::take(std::string_view what) {
  if (done()) reject(what);
  return text_[next_++];
}

std::string_view Cursor::take_bytes(size_t count) {
  require(count <= rest().size(), "take_bytes takes no more than there is");
  next_ += count;
  return text_.substr(next_ - count, count);
}

void Cursor::expect(char c, std::string_view what) {
  if (!at(c)) reject(what);
  ++next_;
}

int64_t Cursor::decimal(int64_t limit, std::string_view what) {
  int64_t value = 0;
  const std::string_view digits = rest();
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const auto length = size_t(end - digits.data());
  const bool plain = error == std::errc() && digits[0] != '-' && (digits[0] != '0' || length == 1);
  if (!plain || value > limit) reject(cat(what, ", a number from 0 to ", limit));
  next_ += length;
  return value;
}

uint32_t Cursor::hexadecimal(int digits) {
  uint32_t value = 0;
  const std::string_view text = rest().substr(0, size_t(digits));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + digits)
    reject(cat(digits, " hexadecimal digits"));
  next_ += size_t(digits);
  return value;
}

}  // namespace deltasane
