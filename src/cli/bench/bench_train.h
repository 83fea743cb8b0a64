// What `bench train` is told, and its part on a GPU.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "train/bench/bench.h"

namespace deltasane::cli {

struct BenchTrainOptions {
  int threads = 0, repeats = 0;
  std::string architecture, size, weights = "random", device = "cpu", precision = "bf16";  // precision: on a GPU
  int64_t sequences = 0, context = 0;  // 0, and no size: what the device can bear
  bool recompute = false, json = false;

  train::TrainingBench asked() const;
};

template <class Measurement>
nlohmann::ordered_json share_json(const Measurement& m, const MedianInterval& cost) {
  return {{"median", m.share_of_step(cost.median)},
          {"low_95", m.share_of_step(cost.low)},
          {"high_95", m.share_of_step(cost.high)}};
}

// In percent of a step.
template <class Measurement>
std::string share_text(const Measurement& m, const MedianInterval& cost) {
  return fmt::format("{:.2f} %, with 95 % between {:.2f} and {:.2f} %",
                     100 * m.share_of_step(cost.median), 100 * m.share_of_step(cost.low),
                     100 * m.share_of_step(cost.high));
}

int bench_train_on_gpu(const BenchTrainOptions& options, int gpu_index);

}  // namespace deltasane::cli
