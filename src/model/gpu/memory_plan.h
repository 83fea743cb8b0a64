// Many buffers in one allocation, so that too little memory is found at once and reported as one
// sum.
//
// The same requests are made twice: of a plan without memory, which counts, and of one with memory,
// which places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/gpu.h"

namespace deltasane {

class MemoryPlan {
 public:
  MemoryPlan() = default;
  explicit MemoryPlan(const GpuBuffer& memory) : base_(memory.data()) {}

  template <class T>
  void place(T*& at, int64_t count) {
    at = base_ ? reinterpret_cast<T*>(base_ + bytes_) : nullptr;
    bytes_ += (uint64_t(count) * sizeof(T) + apart - 1) / apart * apart;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t apart = 256;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

// Calls place(plan) twice; what it placed lies in the result.
template <class Place>
GpuBuffer planned(const Gpu& gpu, std::string_view purpose, Place place) {
  MemoryPlan counted;
  place(counted);
  GpuBuffer memory(gpu, counted.bytes(), purpose);
  MemoryPlan placed(memory);
  place(placed);
  return memory;
}

}  // namespace deltasane
