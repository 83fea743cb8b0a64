// Memory on the host, aligned to 64 bytes (a cache line, and the widest vector we use).
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltasane {

class Buffer {
 public:
  static constexpr size_t alignment = 64;

  Buffer() = default;
  explicit Buffer(uint64_t bytes);  // not initialised
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace deltasane
