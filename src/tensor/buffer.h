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
  // In whole huge pages, if it fills a quarter of one: for numbers that are read again and again.
  static Buffer in_huge_pages(uint64_t bytes);
  using Release = void (*)(std::byte*) noexcept;
  // Memory from another allocator, and the function that frees it.
  Buffer(std::byte* data, uint64_t bytes, Release release)
      : data_(data), size_(bytes), release_(release) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  Release release_ = free_memory;
  static void free_memory(std::byte* data) noexcept;
};

}  // namespace deltasane
