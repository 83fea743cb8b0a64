// For tests: batches of random tokens with uneven weights, with padding and without.
#pragma once

#include "base/random.h"
#include "model/train/training_batch.h"

namespace deltasane::test {

inline TrainingBatch random_batch(int64_t vocabulary, int64_t sequences, int64_t time,
                                  uint64_t seed = 1) {
  Random random(seed, 77);
  TrainingBatch batch;
  batch.sequences = sequences, batch.time = time;
  for (int64_t i = 0; i < batch.rows(); ++i) {
    batch.tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
    batch.targets.push_back(int32_t(random.below(uint64_t(vocabulary))));
    batch.weights.push_back(i % 5 == 3 ? 0.0f : float(random.below(8)) / 4 + 0.25f);
  }
  return batch;
}

// Padding in front of the first sequence, in the middle of the others and behind the last.
inline TrainingBatch padded(TrainingBatch batch) {
  batch.present.assign(size_t(batch.rows()), 1);
  for (int64_t i = 0; i < batch.rows(); ++i) {
    const int64_t sequence = i / batch.time, t = i % batch.time;
    const bool padding = sequence == 0 ? t < 3 : t == 6;
    if (padding || i + 2 >= batch.rows()) batch.present[size_t(i)] = 0;
  }
  return batch;
}

}  // namespace deltasane::test
