// What one step of training sees, and what its loss is.
//
//     loss = sum_i weight_i (-log p(target_i | tokens up to i)) / weight_total
//
// Every sequence starts from nothing. Padding comes last in a sequence and has weight 0: what
// follows the last weight changes neither loss nor gradient.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace deltasane::train {

struct Batch {
  int64_t sequences = 0, time = 0;
  std::vector<int32_t> tokens, targets;  // (sequences, time)
  std::vector<float> weights;            // (sequences, time)

  int64_t rows() const { return sequences * time; }
  double weight_total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
};

struct LossSettings {
  double weight_total = 1;  // of all batches whose gradients are summed to one step
  double wrap = 0;          // L2-wrap; 1e-4 in RWKV's own recipe
};

}  // namespace deltasane::train
