#include "tensor/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/error.h"

namespace deltasane {
namespace {

// Of a block, where this GPU stands in for one that has less: tests and benchmarks set it.
uint64_t shared_limit() {
  const char* const kib = std::getenv("DELTASANE_SHARED_KIB");
  if (!kib) return std::numeric_limits<uint64_t>::max();
  const int64_t limit = std::atoll(kib);
  if (limit <= 0)
    fail(Fault::argument, "DELTASANE_SHARED_KIB: expected KiB of shared memory a block, found '", kib,
         "'");
  return uint64_t(limit) << 10;
}

std::string mebibytes(uint64_t bytes) { return cat((bytes + (1u << 20) - 1) >> 20, " MiB"); }

}  // namespace

void check_cuda(int result, std::source_location at) {
  if (result == cudaSuccess) return;
  const auto error = cudaError_t(result);
  fail(Fault::device, "CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), "), in ",
       at.function_name());
}

int Gpu::count() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result == cudaSuccess) return devices;
  cudaGetLastError();  // no driver or no device: not an error of the next call
  return 0;
}

Gpu::Gpu(int index) : index_(index) {
  const int devices = count();
  if (index < 0 || index >= devices)
    fail(Fault::device, "device cuda:", index, ": expected one of ", devices,
         " CUDA devices of this machine, numbered from 0; or use the CPU");
  check_cuda(cudaSetDevice(index));
  cudaDeviceProp device;
  check_cuda(cudaGetDeviceProperties(&device, index));
  properties_.name = device.name;
  properties_.multiprocessors = device.multiProcessorCount;
  properties_.capability = device.major * 10 + device.minor;
  properties_.memory_bytes = device.totalGlobalMem;
  properties_.cache_bytes = uint64_t(device.l2CacheSize);
  properties_.shared_bytes = std::min<uint64_t>(device.sharedMemPerBlockOptin, shared_limit());
  if (properties_.capability < 80)
    fail(Fault::device, "device cuda:", index, ": expected compute capability 8.0 or newer, found ",
         device.major, ".", device.minor, " (", properties_.name, ")");
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Gpu::Gpu(const Gpu& device, CUstream_st* borrowed)
    : index_(device.index_),
      properties_(device.properties_),
      stream_(borrowed),
      owns_stream_(false) {}

Gpu::~Gpu() {
  if (!owns_stream_) return;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Gpu::wait() const { check_cuda(cudaStreamSynchronize(stream_)); }
void Gpu::make_current() const { check_cuda(cudaSetDevice(index_)); }
uint64_t Gpu::free_bytes() const {
  make_current();
  size_t left = 0, all = 0;
  check_cuda(cudaMemGetInfo(&left, &all));
  return left;
}

GpuEvent::GpuEvent() : GpuEvent(cudaEventDisableTiming) {}
GpuEvent::GpuEvent(unsigned flags) { check_cuda(cudaEventCreateWithFlags(&event_, flags)); }
GpuEvent::~GpuEvent() {
  if (event_) cudaEventDestroy(event_);
}
GpuEvent::GpuEvent(GpuEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
GpuEvent& GpuEvent::operator=(GpuEvent&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}
void GpuEvent::record(const Gpu& gpu) { check_cuda(cudaEventRecord(event_, gpu.stream())); }
void GpuEvent::stream_wait(CUstream_st* stream) const {
  check_cuda(cudaStreamWaitEvent(stream, event_, 0));
}
void GpuEvent::wait() const { check_cuda(cudaEventSynchronize(event_)); }
bool GpuEvent::reached() const {
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) return false;
  check_cuda(result);
  return true;
}
TimedGpuEvent::TimedGpuEvent() : GpuEvent(cudaEventDefault) {}
double TimedGpuEvent::milliseconds_since(const TimedGpuEvent& earlier) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
  return double(milliseconds);
}

GpuBuffer::GpuBuffer(const Gpu& gpu, uint64_t bytes, std::string_view purpose)
    : size_(bytes), index_(gpu.index()) {
  if (bytes == 0) return;
  check_cuda(cudaSetDevice(index_));
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t left = 0, all = 0;
    check_cuda(cudaMemGetInfo(&left, &all));
    fail(Fault::device, "GPU memory: needed ", mebibytes(bytes), " for ", purpose, ", found ",
         mebibytes(left), " left of ", mebibytes(all));
  }
  check_cuda(result);
  data_ = static_cast<std::byte*>(memory);
}
GpuBuffer::~GpuBuffer() {
  if (data_) cudaFree(data_);
}
GpuBuffer::GpuBuffer(GpuBuffer&& other) noexcept { *this = std::move(other); }
GpuBuffer& GpuBuffer::operator=(GpuBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(index_, other.index_);
  return *this;
}

Buffer pinned_memory(uint64_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, bytes));
  return {static_cast<std::byte*>(memory), bytes,
          [](std::byte* data) noexcept { cudaFreeHost(data); }};
}
bool is_pinned(const void* at) {
  cudaPointerAttributes found;
  check_cuda(cudaPointerGetAttributes(&found, at));
  return found.type == cudaMemoryTypeHost;
}

void copy_to_gpu(void* to, const void* from, uint64_t bytes, const Gpu& gpu) {
  if (bytes) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu.stream()));
}
void copy_to_host(void* to, const void* from, uint64_t bytes, const Gpu& gpu) {
  if (bytes) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, gpu.stream()));
}
void copy_on_gpu(void* to, const void* from, uint64_t bytes, const Gpu& gpu) {
  if (bytes) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu.stream()));
}
void copy_rows_on_gpu(const GpuRows& to, const GpuRows& from, uint64_t bytes, int64_t rows,
                      const Gpu& gpu) {
  if (bytes && rows)
    check_cuda(cudaMemcpy2DAsync(to.data, to.step, from.data, from.step, bytes, size_t(rows),
                                 cudaMemcpyDeviceToDevice, gpu.stream()));
}
void zero_on_gpu(void* at, uint64_t bytes, const Gpu& gpu) {
  if (bytes) check_cuda(cudaMemsetAsync(at, 0, bytes, gpu.stream()));
}

}  // namespace deltasane
