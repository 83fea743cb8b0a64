// For tests: files built byte by byte, and systematic corruption of them.
#pragma once

#include <gtest/gtest.h>
#include <cstdint>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "support/mutate.h"

namespace deltasane::test {

class Bytes {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Bytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& text(std::string_view piece) {
    text_ += piece;
    return *this;
  }
  Bytes& sized(std::string_view piece) {  // a 64-bit length first
    return number(uint64_t{piece.size()}).text(piece);
  }
  Bytes& floats(const std::vector<float>& values) {
    for (const float value : values) number(value);
    return *this;
  }
  Bytes& pad(size_t alignment) {
    text_.append((alignment - text_.size() % alignment) % alignment, '\0');
    return *this;
  }
  size_t size() const { return text_.size(); }
  const std::string& string() const { return text_; }

 private:
  std::string text_;
};

// A heap copy of exactly this size, so that a sanitizer detects a read of one byte past the end.
class Exact {
 public:
  explicit Exact(std::string_view bytes)
      : memory_(new std::byte[bytes.size()]), size_(bytes.size()) {
    if (size_) std::memcpy(memory_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> span() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t size_;
};

// True if the bytes are accepted, false if they are rejected with a one-line message that names the
// file.
template <class Read>
bool accepted(std::string_view bytes, Read&& read) {
  try {
    read(Exact(bytes).span());
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_EQ(message.substr(0, 4), "file") << message;
    EXPECT_LT(message.size(), 600u) << message;
    return false;
  }
}

template <class Read>
void expect_every_cut_rejected(std::string_view good, Read&& read) {
  ASSERT_TRUE(accepted(good, read));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(accepted(good.substr(0, length), read)) << "cut to " << length << " bytes";
}

// Flips every bit of the first `count` bytes; the reader may accept or reject, but must not crash.
template <class Read>
void expect_every_flip_survived(std::string_view good, size_t count, Read&& read) {
  std::string bytes(good);
  for (size_t i = 0; i < count; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = char(good[i] ^ (1 << bit));
      accepted(bytes, read);
      bytes[i] = good[i];
    }
}

// Random corruption of files (support/mutate.h).
template <class Read>
void expect_mutations_survived(std::string_view good, uint64_t seed, int rounds, Read&& read) {
  Random random(seed);
  int accepted_files = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes(good);
    mutate(bytes, random);
    accepted_files += accepted(bytes, read);
  }
  ::testing::Test::RecordProperty("accepted", accepted_files);
}

}  // namespace deltasane::test
