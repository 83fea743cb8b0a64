// A cursor over untrusted bytes. Numbers are little-endian and need no alignment; a read past the
// end fails with the file's name, the byte offset, the expected and the remaining size.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace deltasane {

class ByteReader {
 public:
  // `name` must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view name, uint64_t offset = 0)
      : bytes_(bytes), name_(name), offset_(offset) {
    if (offset > bytes.size())
      reject("expected an offset inside the file of ", bytes.size(), " bytes");
  }

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }
  std::string_view name() const { return name_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > remaining()) reject(what, ": expected ", count, " bytes, found ", remaining());
    const std::span<const std::byte> taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  std::string_view text(uint64_t count, std::string_view what) {
    const std::span<const std::byte> taken = take(count, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  template <class T>
  requires(std::endian::native == std::endian::little) T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  // "file: at byte N: ..."
  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const {
    fail(Fault::file, name_, ": at byte ", offset_, ": ", part...);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view name_;
  uint64_t offset_;
};

}  // namespace deltasane
