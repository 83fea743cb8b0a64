// What one step of training sees, and what its loss is.
//
//     loss = sum_i weight_i (-log p(target_i | tokens up to i)) / weight_total
//
// Every sequence starts from an empty state. A token that is not present is padding: it is as a row
// of zeros to token shift, leaves the recurrence's state alone, and keeps its chunk from being
// neutralized. So a sequence with whole chunks of padding in front equals the one without.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace deltasane {

struct TrainingBatch {
  int64_t sequences = 0, time = 0;
  std::vector<int32_t> tokens, targets;  // (sequences, time)
  std::vector<float> weights;            // (sequences, time)
  std::vector<uint8_t> present{};        // (sequences, time), 0 or 1; empty: all 1

  int64_t rows() const { return sequences * time; }
  double weight_total() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }

  // Fails unless it is of this size and its ids are in the vocabulary.
  void expect(int64_t of_sequences, int64_t of_time, int64_t vocabulary) const {
    if (sequences != of_sequences || time != of_time)
      fail(Fault::argument, "batch: expected ", of_sequences, " x ", of_time, " tokens, found ",
           sequences, " x ", time);
    for (const auto* ids : {&tokens, &targets})
      for (const int32_t id : *ids)
        if (id < 0 || id >= vocabulary)
          fail(Fault::argument, "token: expected 0 to ", vocabulary - 1, ", found ", id);
  }
};

struct LossSettings {
  double weight_total = 1;  // of all batches whose gradients are summed to one step
  double wrap = 0;          // L2-wrap: holds each row's largest logit down
};

}  // namespace deltasane
