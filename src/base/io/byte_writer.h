// Bytes put one after another, numbers little-endian: what base/io/byte_reader.h reads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace deltasane {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

class ByteWriter {
 public:
  void put(std::span<const std::byte> bytes) {
    const size_t before = bytes_.size();
    bytes_.resize(before + bytes.size());
    if (!bytes.empty()) std::memcpy(bytes_.data() + before, bytes.data(), bytes.size());
  }
  void text(std::string_view text) { put(std::as_bytes(std::span(text))); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) { put(std::as_bytes(std::span(&value, 1))); }
  void pad(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace deltasane
