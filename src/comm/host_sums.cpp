#include "comm/host_sums.h"

namespace deltasane::comm {
namespace {

class HostSums : public DeviceSums {
 public:
  HostSums(Group& group, const Gpu& gpu) : group_(group), gpu_(gpu), queue_(gpu.index()) {}

  void begin(float* numbers, int64_t count) override {
    if (begun_ == pieces_.size()) pieces_.emplace_back();
    Piece& piece = pieces_[begun_++];
    const uint64_t bytes = uint64_t(count) * sizeof(float);
    if (piece.host.size() < bytes) {
      queue_.wait();  // it may still be read for the sum before
      piece.host = PinnedBuffer(bytes);
    }
    piece.numbers = numbers, piece.count = size_t(count);
    piece.moment.record(gpu_);
    piece.moment.let_wait(queue_.stream());
    copy_to_host(piece.host.as<float>(), numbers, bytes, queue_);
    piece.moment.record(queue_);
  }

  void finish() override {
    const std::span<Piece> all = std::span(pieces_).first(begun_);
    for (const Piece& piece : all) {
      piece.moment.wait();
      group_.begin_sum({piece.host.as<float>(), piece.count});
    }
    group_.finish_sums();
    for (const Piece& piece : all)
      copy_to_gpu(piece.numbers, piece.host.as<float>(), piece.count * sizeof(float), queue_);
    done_.record(queue_);
    done_.let_wait(gpu_.stream());
    begun_ = 0;
  }

  void wait() override {}
  std::string name() const override { return "the host"; }

 private:
  struct Piece {
    float* numbers = nullptr;  // on the GPU
    size_t count = 0;
    PinnedBuffer host;
    GpuEvent moment;  // when the numbers are ready, then when they are copied
  };

  Group& group_;
  const Gpu& gpu_;
  Gpu queue_;  // of copies
  std::vector<Piece> pieces_;
  size_t begun_ = 0;
  GpuEvent done_;
};

}  // namespace

std::unique_ptr<DeviceSums> host_sums(Group& group, const Gpu& gpu) {
  return std::make_unique<HostSums>(group, gpu);
}

}  // namespace deltasane::comm
