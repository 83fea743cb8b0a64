#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "base/checked.h"

namespace deltasane {

namespace {

constexpr uint64_t huge_page = uint64_t{2} << 20;

uint64_t rounded_up(uint64_t bytes, uint64_t boundary) {
  return checked_add(bytes, boundary - 1, "buffer size") / boundary * boundary;
}

}  // namespace

Buffer::Buffer(uint64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  // Large buffers are aligned to huge pages: a head's vectors lie a page apart, and would miss in
  // the TLB at every token.
  const bool is_large = bytes >= 2 * huge_page || bytes == huge_page;
  const uint64_t boundary = is_large ? huge_page : alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(boundary, rounded_up(bytes, boundary)));
  if (!data_)
    fail(Fault::device, "memory: expected ", bytes, " bytes, found too little free memory");
  // Not for the tail, which is smaller than a huge page. Advisory: failure is harmless.
  if (is_large) ::madvise(data_, bytes / huge_page * huge_page, MADV_HUGEPAGE);
}

Buffer Buffer::in_huge_pages(uint64_t bytes) {
  return Buffer(bytes < huge_page / 4 ? bytes : rounded_up(bytes, huge_page));
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
