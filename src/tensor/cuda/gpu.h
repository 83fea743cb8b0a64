// One GPU and one CUDA stream on it. Work is asynchronous: it is enqueued, starts when the work
// enqueued before has ended, and the host continues. Only `wait` blocks the host.
//
// This header needs no CUDA; a build without CUDA declares the same and defines nothing, and
// callers are behind `if constexpr (built_with_cuda)`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "tensor/buffer.h"

struct CUstream_st;
struct CUevent_st;

namespace deltasane {

inline constexpr bool built_with_cuda = DELTASANE_CUDA_BUILT;

struct GpuProperties {
  std::string name;
  int multiprocessors = 0, capability = 0;                       // 90 for compute capability 9.0
  uint64_t memory_bytes = 0, cache_bytes = 0, shared_bytes = 0;  // shared: the most for one block
};

class Gpu {
 public:
  explicit Gpu(int index);  // fails if there is no such device
  // The same device, and a stream of the caller's, who keeps it as long as this is used.
  Gpu(const Gpu& device, CUstream_st* borrowed);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  static int count();  // 0 if there is no driver

  int index() const { return index_; }
  const GpuProperties& properties() const { return properties_; }
  CUstream_st* stream() const { return stream_; }
  void wait() const;          // until all enqueued work has ended; fails with its error
  void make_current() const;  // for the calling thread; every thread starts with device 0
  uint64_t free_bytes() const;

 private:
  int index_;
  GpuProperties properties_;
  CUstream_st* stream_ = nullptr;
  bool owns_stream_ = true;
};

// A point in a stream that another stream, or the host, can wait for.
class GpuEvent {
 public:
  GpuEvent();
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&& other) noexcept;

  void record(const Gpu& gpu);                  // after all enqueued work
  void stream_wait(CUstream_st* stream) const;  // work enqueued there later starts after this point
  void wait() const;                            // blocks the host
  bool reached() const;

 protected:
  explicit GpuEvent(unsigned flags);
  CUevent_st* event_;
};
// Likewise with a time, which costs the stream more.
class TimedGpuEvent : public GpuEvent {
 public:
  TimedGpuEvent();
  double milliseconds_since(const TimedGpuEvent& earlier) const;  // both reached
};

// Fails unless a CUDA call succeeded; result: its cudaError_t.
void check_cuda(int result, std::source_location at = std::source_location::current());

// Memory on a GPU. `purpose` is named if there is not enough.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  GpuBuffer(const Gpu& gpu, uint64_t bytes, std::string_view purpose);  // not initialised
  ~GpuBuffer();
  GpuBuffer(GpuBuffer&& other) noexcept;
  GpuBuffer& operator=(GpuBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int index_ = 0;
};

// Pinned host memory, which a GPU reads and writes asynchronously.
Buffer pinned_memory(uint64_t bytes);  // not initialised
bool is_pinned(const void* at);
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(uint64_t bytes) : memory_(pinned_memory(bytes)) {}

  uint64_t size() const { return memory_.size(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  Buffer memory_;
};

// In the stream's order. Host memory must stay valid until the copy is done.
void copy_to_gpu(void* to, const void* from, uint64_t bytes, const Gpu& gpu);
void copy_to_host(void* to, const void* from, uint64_t bytes, const Gpu& gpu);
void copy_on_gpu(void* to, const void* from, uint64_t bytes, const Gpu& gpu);
// Rows of `bytes`, `step` bytes apart.
struct GpuRows {
  void* data;
  uint64_t step;
};
void copy_rows_on_gpu(const GpuRows& to, const GpuRows& from, uint64_t bytes, int64_t rows,
                      const Gpu& gpu);
void zero_on_gpu(void* at, uint64_t bytes, const Gpu& gpu);

}  // namespace deltasane
