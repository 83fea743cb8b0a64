// For tests: files built byte by byte, and every way to damage them.
#pragma once

#include <gtest/gtest.h>
#include <cstdint>

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "format/tensor_file.h"

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

// The bytes in memory of exactly their size, so that a sanitizer sees one byte too far.
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

// A reader for the sweeps below: it reads a file and all its tensors.
template <class Reader>
auto read_all(Reader reader) {
  return [reader](std::span<const std::byte> bytes) {
    const TensorFile file = reader(bytes, "file");
    for (const StoredTensor& tensor : file.tensors())
      if (tensor.type != StoredType::foreign) file.read(tensor);
  };
}

// True when the bytes are read, false when they are refused with one line that names the file.
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
void expect_every_cut_refused(std::string_view good, Read&& read) {
  ASSERT_TRUE(accepted(good, read));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(accepted(good.substr(0, length), read)) << "cut to " << length << " bytes";
}

// Every bit of the first `count` bytes; the reader may refuse or not, but must not break.
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

// Random damage: bytes changed, set to telling values, removed, repeated, swapped in blocks.
template <class Read>
void expect_mutations_survived(std::string_view good, uint64_t seed, int rounds, Read&& read) {
  Random random(seed);
  int read_well = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes(good);
    for (uint64_t change = 0, changes = 1 + random.below(4); change < changes; ++change) {
      if (bytes.empty()) break;
      const size_t at = random.below(bytes.size());
      const size_t length = 1 + random.below(std::min<size_t>(16, bytes.size() - at));
      constexpr std::string_view telling("\x00\x01\x7f\x80\xff\x28\x29\x7d\x52", 9);
      switch (random.below(5)) {
        case 0:
          bytes[at] = char(random.word());
          break;
        case 1:
          for (size_t i = 0; i < length; ++i) bytes[at + i] = telling[random.below(telling.size())];
          break;
        case 2:
          bytes.erase(at, length);
          break;
        case 3:
          bytes.insert(random.below(bytes.size()), bytes.substr(at, length));
          break;
        case 4:
          bytes.resize(at);
          break;
      }
    }
    read_well += accepted(bytes, read);
  }
  ::testing::Test::RecordProperty("read_well", read_well);
}

}  // namespace deltasane::test
