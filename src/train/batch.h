// What one step of training sees, and what its loss is.
//
//     loss = sum_i weight_i (-log p(target_i | tokens up to i)) / weight_total
//
// Every sequence starts from nothing. A token that is not present is padding: it is as a row of
// zeros to token shift, leaves the recurrence's state alone, and keeps its chunk from being
// neutralized. So a sequence with whole chunks of padding in front equals the one without.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace deltasane::train {

struct Batch {
  int64_t sequences = 0, time = 0;
  std::vector<int32_t> tokens, targets;  // (sequences, time)
  std::vector<float> weights;            // (sequences, time)
  std::vector<uint8_t> present{};        // (sequences, time), 0 or 1; empty: all 1

  int64_t rows() const { return sequences * time; }
  double weight_total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
};

struct LossSettings {
  double weight_total = 1;  // of all batches whose gradients are summed to one step
  double wrap = 0;          // L2-wrap; 1e-4 in RWKV's own recipe
};

}  // namespace deltasane::train
