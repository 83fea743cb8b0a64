#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "base/checked.h"

namespace deltasane {

Buffer::Buffer(uint64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  // Large buffers are aligned to huge pages: a head's vectors lie a page apart, and would miss in
  // the TLB at every token.
  constexpr uint64_t huge_page = uint64_t{2} << 20;
  const uint64_t boundary = bytes >= 2 * huge_page ? huge_page : alignment;
  const uint64_t rounded = checked_add(bytes, boundary - 1, "buffer size") / boundary * boundary;
  data_ = static_cast<std::byte*>(std::aligned_alloc(boundary, rounded));
  if (!data_)
    fail(Fault::device, "memory: expected ", bytes, " bytes, found too little free memory");
  // Not for the tail, which is smaller than a huge page. Advisory: failure is harmless.
  if (boundary == huge_page) ::madvise(data_, bytes / huge_page * huge_page, MADV_HUGEPAGE);
}

void Buffer::free_memory(std::byte* data) noexcept { std::free(data); }
Buffer::~Buffer() {
  if (data_) release_(data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      release_(other.release_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(release_, other.release_);
  return *this;
}

}  // namespace deltasane
