// How fast a training step is, against what this machine's matrix products reach in the same run,
// and what SANE adds to it.
//
// Steps with and without SANE come in pairs, whose order changes from one to the next, and the
// processors' time is compared: others who use the machine change that less than the clock on the
// wall. SANE has a part in the recurrence and in tau alone, a tenth of a step; the rest is
// the same work in both. So its cost is what these take more, which the noise of the rest does not
// touch. What whole steps take more is reported beside it, as a check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/timing.h"
#include "kernel/cpu_device.h"
#include "model/train/trainable_model.h"

namespace deltasane::train {

struct TrainingMeasurement {
  std::string title;  // of the architecture
  int64_t sequences = 0, time = 0;
  double flops_per_token = 0;           // 6 per matrix parameter, and 28 per entry of the state
  double product_flops_per_second = 0;  // the best of large products: forward and both of backward
  Timing baseline, sane;                // seconds of loss and gradient of one batch
  double processor_seconds = 0;         // of all processors, for a step with SANE; median
  MedianInterval sane_cost;             // processor seconds, of recurrence and tau
  MedianInterval whole_cost;            // the same of whole steps
  double update_seconds = 0;            // one step of AdamW

  double tokens() const { return double(sequences * time); }
  double step_seconds() const { return sane.median + update_seconds; }
  double tokens_per_second() const { return tokens() / step_seconds(); }
  double of_products() const {
    return flops_per_token * tokens_per_second() / product_flops_per_second;
  }
  double share_of_step(double seconds) const { return seconds / processor_seconds; }
  double share_of_sane() const { return share_of_step(sane_cost.median); }
};

// Forward and backward, of one token: 6 per parameter of a matrix product.
double product_flops(const ParameterLayout& layout);

// Tokens to learn, drawn at random.
TrainingBatch random_tokens(int64_t vocabulary, int64_t sequences, int64_t time);

BenchWeights bench_weights_named(const std::string& name);

// What to measure.
struct TrainingBench {
  std::string size;  // a released one
  BenchWeights weights = BenchWeights::random;
  int64_t sequences = 1, time = 512;
  int repeats = 15;
  Activations activations = Activations::keep;
  std::string architecture = "";

  std::unique_ptr<TrainableModel> model(bool sane, const kernel::Cpu& cpu) const {
    return trainable_factory(architecture).released(size, weights, sane, cpu);
  }
};
TrainingMeasurement bench_training(const TrainingBench& asked, const kernel::Cpu& cpu);

}  // namespace deltasane::train
