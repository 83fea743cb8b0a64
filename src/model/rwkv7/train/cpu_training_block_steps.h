// What the forward and backward steps of CpuTrainingBlock share. For its sources only.
#pragma once

#include <algorithm>

#include "base/processor_time.h"
#include "model/rwkv7/train/cpu_training_block.h"

namespace deltasane::rwkv7 {

// Counts what is done while it lives; see CpuPass::recurrence_seconds.
class CpuTrainingBlock::CountsTime {
 public:
  explicit CountsTime(const CpuPass& c)
      : sum_(c.recurrence_seconds), began_(sum_ ? processor_seconds_now() : 0) {}
  ~CountsTime() {
    if (sum_) *sum_ += processor_seconds_now() - began_;
  }
  CountsTime(const CountsTime&) = delete;
  CountsTime& operator=(const CountsTime&) = delete;

 private:
  double* sum_;
  double began_;
};

inline void copy_rows(const Tensor<float>& from, Tensor<float>& to, const kernel::Cpu& cpu) {
  const int64_t n = from.shape()[1];
  cpu.threads.parallel(from.shape()[0], [&](int64_t row) {
    std::copy_n(from.data() + row * n, n, to.data() + row * n);
  });
}

}  // namespace deltasane::rwkv7
