// Memory of the host that copies from and to a GPU use directly: they do not stop the host, and
// run while it and the GPU work. Other memory of the host is copied through one of these by the
// driver, which waits for the queue first.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "base/checked.h"

namespace deltasane {

void* allocate_pinned(uint64_t bytes);
void free_pinned(void* memory);

template <class T>
class Pinned {
 public:
  Pinned() = default;
  explicit Pinned(int64_t count)  // not initialised
      : data_(static_cast<T*>(
            allocate_pinned(checked_multiply(uint64_t(count), sizeof(T), "pinned memory")))),
        count_(count) {}
  ~Pinned() { free_pinned(data_); }
  Pinned(Pinned&& other) noexcept { *this = std::move(other); }
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  T* data() const { return data_; }
  std::span<T> span() const { return {data_, size_t(count_)}; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace deltasane
