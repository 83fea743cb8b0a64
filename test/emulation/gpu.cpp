// Stands for tensor/cuda/gpu.cpp: one GPU, whose memory is the host's, and whose work is done when
// it is enqueued.
#include "tensor/cuda/gpu.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "emulation/block.h"

namespace deltasane {

Gpu::Gpu(int index) : index_(index) {
  require(index == 0, "the host emulates one GPU");
  properties_ = {.name = "the host",
                 .multiprocessors = emulation::emulated_gpu().multiprocessors,
                 .capability = emulation::emulated_gpu().capability,
                 .memory_bytes = uint64_t{1} << 30,
                 .cache_bytes = uint64_t{1} << 20,
                 .shared_bytes = emulation::emulated_gpu().shared};
}
Gpu::~Gpu() = default;
int Gpu::count() { return 1; }
void Gpu::wait() const {}
void Gpu::make_current() const {}
uint64_t Gpu::free_bytes() const { return properties_.memory_bytes; }

// All work is done when it is enqueued.
GpuEvent::GpuEvent() : event_(nullptr) {}
GpuEvent::GpuEvent(unsigned) : event_(nullptr) {}
GpuEvent::~GpuEvent() = default;
GpuEvent::GpuEvent(GpuEvent&&) noexcept : event_(nullptr) {}
GpuEvent& GpuEvent::operator=(GpuEvent&&) noexcept { return *this; }
void GpuEvent::record(const Gpu&) {}
void GpuEvent::stream_wait(CUstream_st*) const {}
void GpuEvent::wait() const {}
TimedGpuEvent::TimedGpuEvent() : GpuEvent(0u) {}
double TimedGpuEvent::milliseconds_since(const TimedGpuEvent&) const { return 0; }

namespace {

// Pinned memory, which resident blocks share too, and its size in front of it.
constexpr uint64_t in_front = Buffer::alignment;
void release_pinned(std::byte* data) noexcept {
  std::byte* const memory = data - in_front;
  uint64_t bytes;
  std::memcpy(&bytes, memory, sizeof(bytes));
  munmap(memory, bytes);
}

// A guard page follows a buffer, whose end is a multiple of 16 bytes.
constexpr uint64_t page = 65536;
uint64_t whole_pages(uint64_t bytes) { return (bytes + page - 1) / page * page; }
uint64_t whole_pieces(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

GpuBuffer::GpuBuffer(const Gpu&, uint64_t bytes, std::string_view) : size_(bytes) {
  if (bytes == 0) return;
  const uint64_t pages = whole_pages(bytes);
  void* const memory =
      mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "the host has memory for a buffer");
  std::byte* const end = static_cast<std::byte*>(memory) + pages;
  mprotect(end, page, PROT_NONE);
  data_ = end - whole_pieces(bytes);
  std::memset(data_, 0xff, whole_pieces(bytes));
}
GpuBuffer::~GpuBuffer() {
  if (data_) munmap(data_ + whole_pieces(size_) - whole_pages(size_), whole_pages(size_) + page);
}
GpuBuffer::GpuBuffer(GpuBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
GpuBuffer& GpuBuffer::operator=(GpuBuffer&& other) noexcept {
  std::swap(data_, other.data_), std::swap(size_, other.size_);
  return *this;
}

Buffer pinned_memory(uint64_t bytes) {
  const uint64_t all = bytes + in_front;
  void* const memory =
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "the host has pinned memory");
  std::memcpy(memory, &all, sizeof(all));
  return {static_cast<std::byte*>(memory) + in_front, bytes, release_pinned};
}
bool is_pinned(const void*) { return false; }

void copy_to_gpu(void* to, const void* from, uint64_t bytes, const Gpu&) {
  if (bytes) std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, uint64_t bytes, const Gpu&) {
  if (bytes) std::memcpy(to, from, bytes);
}
void copy_on_gpu(void* to, const void* from, uint64_t bytes, const Gpu&) {
  if (bytes) std::memmove(to, from, bytes);
}
void copy_rows_on_gpu(const GpuRows& to, const GpuRows& from, uint64_t bytes, int64_t rows,
                      const Gpu&) {
  for (int64_t i = 0; i < rows; ++i)
    std::memmove(static_cast<char*>(to.data) + uint64_t(i) * to.step,
                 static_cast<char*>(from.data) + uint64_t(i) * from.step, bytes);
}
void zero_on_gpu(void* at, uint64_t bytes, const Gpu&) {
  if (bytes) std::memset(at, 0, bytes);
}

}  // namespace deltasane
