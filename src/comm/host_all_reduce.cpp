#include "comm/host_all_reduce.h"

namespace deltasane::comm {
namespace {

class HostAllReduce : public DeviceAllReduce {
 public:
  HostAllReduce(Group& group, const Gpu& gpu) : group_(group), gpu_(gpu), stream_(gpu.index()) {}

  void begin(float* numbers, int64_t count) override {
    if (started_ == buckets_.size()) buckets_.emplace_back();
    Bucket& bucket = buckets_[started_++];
    const uint64_t bytes = uint64_t(count) * sizeof(float);
    if (bucket.host.size() < bytes) {
      stream_.wait();  // the copy of the reduction before may still read it
      bucket.host = PinnedBuffer(bytes);
    }
    bucket.numbers = numbers, bucket.count = size_t(count);
    bucket.event.record(gpu_);
    bucket.event.stream_wait(stream_.stream());
    copy_to_host(bucket.host.as<float>(), numbers, bytes, stream_);
    bucket.event.record(stream_);
  }

  void finish() override {
    const std::span<Bucket> all = std::span(buckets_).first(started_);
    for (const Bucket& bucket : all) {
      bucket.event.wait();
      group_.begin_all_reduce({bucket.host.as<float>(), bucket.count});
    }
    group_.finish_all_reduces();
    for (const Bucket& bucket : all)
      copy_to_gpu(bucket.numbers, bucket.host.as<float>(), bucket.count * sizeof(float), stream_);
    done_.record(stream_);
    done_.stream_wait(gpu_.stream());
    started_ = 0;
  }

  void wait() override {}
  std::string name() const override { return "the host"; }

 private:
  struct Bucket {
    float* numbers = nullptr;  // on the GPU
    size_t count = 0;
    PinnedBuffer host;
    GpuEvent event;  // first: numbers are ready; then: they are copied to the host
  };

  Group& group_;
  const Gpu& gpu_;
  Gpu stream_;  // of the copies
  std::vector<Bucket> buckets_;
  size_t started_ = 0;
  GpuEvent done_;
};

}  // namespace

std::unique_ptr<DeviceAllReduce> host_all_reduce(Group& group, const Gpu& gpu) {
  return std::make_unique<HostAllReduce>(group, gpu);
}

}  // namespace deltasane::comm
