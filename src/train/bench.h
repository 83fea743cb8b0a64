// How fast a training step is, against what this machine's matrix products reach in the same run,
// and what SANE adds to it.
//
// Steps with and without SANE come in pairs, whose order changes from one to the next. SANE's cost
// is the median over the pairs of what the one with SANE took more, of the processors' time: others
// who use the machine change that less than the clock on the wall.
#pragma once

#include <cstdint>

#include "base/timing.h"
#include "format/rwkv7_layout.h"
#include "kernel/cpu_device.h"
#include "train/rwkv7_training.h"

namespace deltasane::train {

struct TrainingMeasurement {
  Rwkv7Shape shape;
  int64_t sequences = 0, time = 0;
  double flops_per_token = 0;           // 6 per matrix parameter, and 28 per entry of the state
  double product_flops_per_second = 0;  // the best of large products: forward and both ways back
  Timing baseline, sane;                // seconds of loss and gradient of one batch
  double processor_seconds = 0;         // of all processors, for a step with SANE; median
  Timing sane_cost;           // processor seconds; low and high: the middle half of the pairs
  double update_seconds = 0;  // one step of AdamW

  double tokens() const { return double(sequences * time); }
  double step_seconds() const { return sane.median + update_seconds; }
  double tokens_per_second() const { return tokens() / step_seconds(); }
  double of_products() const {
    return flops_per_token * tokens_per_second() / product_flops_per_second;
  }
  double share_of_sane() const { return sane_cost.median / processor_seconds; }
};

// Forward and backward, of one token: 6 per parameter of a matrix product, and 28 per entry of the
// recurrence's state.
double product_flops(const ParameterLayout& layout);
double recurrence_flops(const ParameterLayout& layout);

// Tokens to learn, drawn at random.
Batch random_tokens(const Rwkv7Shape& shape, int64_t sequences, int64_t time);

TrainingMeasurement bench_training(const Rwkv7Shape& shape, int64_t sequences, int64_t time,
                                   int repeats, Activations activations, const kernel::Cpu& cpu);

}  // namespace deltasane::train
