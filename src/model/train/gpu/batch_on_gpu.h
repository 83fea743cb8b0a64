// A batch in a GPU's memory, copied there while the work before is still done.
#pragma once

#include <algorithm>
#include <vector>

#include "model/gpu/memory_plan.h"
#include "model/train/gpu/padding.h"
#include "model/train/gpu/training_pass.h"

namespace deltasane {

class BatchOnGpu {
 public:
  explicit BatchOnGpu(const GpuBatchSize& size) : size_(size) {}

  int32_t *tokens = nullptr, *targets = nullptr;  // (rows)
  float* weights = nullptr;                       // (rows)
  uint8_t *present = nullptr, *whole = nullptr;   // (rows), (sequences, chunks)

  void place(MemoryPlan& plan) {
    const int64_t rows = size_.rows();
    plan.place(tokens, rows), plan.place(targets, rows), plan.place(weights, rows);
    plan.place(present, rows), plan.place(whole, size_.ends());
  }
  // After place. Weights are divided by their sum; chunk: of SANE.
  void upload(const TrainingBatch& batch, const LossSettings& settings, int64_t chunk,
              const Gpu& gpu) {
    while (pinned_.size() < 2) pinned_.emplace_back(size_);
    Pinned& host = pinned_[turn_];
    turn_ = (turn_ + 1) % pinned_.size();
    host.copied.wait();
    std::ranges::copy(batch.tokens, host.tokens.as<int32_t>());
    std::ranges::copy(batch.targets, host.targets.as<int32_t>());
    for (int64_t i = 0; i < size_.rows(); ++i)
      host.weights.as<float>()[i] = float(batch.weights[size_t(i)] / settings.weight_total);
    copy_to_gpu(tokens, host.tokens.as<int32_t>(), host.tokens.size(), gpu);
    copy_to_gpu(targets, host.targets.as<int32_t>(), host.targets.size(), gpu);
    copy_to_gpu(weights, host.weights.as<float>(), host.weights.size(), gpu);
    if (has_padding_in_front(batch)) upload_padding(batch, host, chunk, gpu);
    host.copied.record(gpu);
  }

 private:
  // Two, so that one is filled while the other is copied.
  struct Pinned {
    PinnedBuffer tokens, targets, weights, present, whole;
    GpuEvent copied;
    explicit Pinned(const GpuBatchSize& n)
        : tokens(uint64_t(n.rows()) * sizeof(int32_t)),
          targets(uint64_t(n.rows()) * sizeof(int32_t)),
          weights(uint64_t(n.rows()) * sizeof(float)),
          present(uint64_t(n.rows())),
          whole(uint64_t(std::max<int64_t>(n.ends(), 1))) {}
  };
  void upload_padding(const TrainingBatch& batch, Pinned& host, int64_t chunk, const Gpu& gpu) {
    uint8_t *const here = host.present.as<uint8_t>(), *const whole_here = host.whole.as<uint8_t>();
    std::ranges::copy(batch.present, here);
    for (int64_t end = 0; end < size_.ends(); ++end) {
      const int64_t sequence = end / size_.chunks, number = end % size_.chunks;
      const uint8_t* const begin = here + sequence * size_.time + number * chunk;
      whole_here[end] = std::ranges::find(begin, begin + chunk, 0) == begin + chunk;
    }
    copy_to_gpu(present, here, uint64_t(size_.rows()), gpu);
    if (size_.ends()) copy_to_gpu(whole, whole_here, uint64_t(size_.ends()), gpu);
  }

  GpuBatchSize size_;
  std::vector<Pinned> pinned_;
  size_t turn_ = 0;
};

}  // namespace deltasane
