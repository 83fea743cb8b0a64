// What `bench train` is told, and its part on a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "train/rwkv7_training.h"

namespace deltasane::cli {

struct BenchTrainOptions {
  int threads = 0, repeats = 0;
  std::string size, device = "cpu", precision = "bf16";  // precision: on a GPU
  int64_t sequences = 0, context = 0;                    // 0, and no size: what the device can bear
  bool recompute = false, json = false;

  train::Activations activations() const {
    return recompute ? train::Activations::recompute : train::Activations::keep;
  }
};

int bench_train_on_gpu(const BenchTrainOptions& options, int gpu_index);

}  // namespace deltasane::cli
