// How fast a training step is on a GPU, against the rate of bf16 matrix products that the same GPU
// reaches in the same run, and where its time goes.
//
// One model with SANE makes steps with and without it, in pairs whose order changes from one to the
// next: a GPU's clock follows its heat, and models that have memory of their own differ by a
// percent for that alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/timing.h"
#include "model/gpu/work_clock.h"
#include "train/bench/bench.h"

namespace deltasane::train {

// Steps of one kind: gradient, clipping and AdamW.
struct GpuStepMeasurement {
  Timing seconds;
  std::array<double, kinds_of_work> milliseconds{};  // of some more, marked, at one clock
};

struct GpuTrainingMeasurement {
  std::string device, title;  // title: of the architecture
  int64_t sequences = 0, time = 0;
  double product_flops = 0, recurrence_flops = 0;  // of one token, forward and backward
  double product_flops_per_second = 0;             // bf16, large matrices
  GpuStepMeasurement baseline, sane;               // in pairs
  MedianInterval sane_cost;                        // seconds, by the pairs
  MedianInterval sane_cost_at_one_clock;           // likewise (clocked_steps.h)
  uint64_t activation_bytes = 0;
  double muon_seconds = 0;  // what the update takes with Muon instead of AdamW

  double tokens() const { return double(sequences * time); }
  double tokens_per_second() const { return tokens() / sane.seconds.median; }
  double of_products() const {
    return product_flops * tokens_per_second() / product_flops_per_second;
  }
  double share_of_step(double seconds) const { return seconds / baseline.seconds.median; }
};

GpuTrainingMeasurement bench_gpu_training(const TrainingBench& asked, Precision precision,
                                          int gpu_index, const kernel::Cpu& cpu);

}  // namespace deltasane::train
