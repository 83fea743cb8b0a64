#include "tensor/buffer.h"

#include <cstdlib>
#include <utility>

#include "base/checked.h"

namespace deltasane {

Buffer::Buffer(uint64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const uint64_t rounded = checked_add(bytes, alignment - 1, "buffer size") / alignment * alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (!data_) fail(Fault::device, "memory: ", bytes, " bytes were needed and could not be had");
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace deltasane
