#include "model/train/gpu/padding.h"

namespace deltasane {

void expect_padding_at_the_ends(const TrainingBatch& batch) {
  if (batch.present.empty()) return;
  for (int64_t sequence = 0; sequence < batch.sequences; ++sequence) {
    const size_t begin = size_t(sequence * batch.time);
    size_t first = begin, last = begin + size_t(batch.time);
    while (last > begin && batch.weights[last - 1] == 0) --last;
    while (first < last && !batch.present[first]) ++first;
    for (size_t i = first; i < last; ++i)
      if (!batch.present[i])
        fail(Fault::usage,
             "training on a GPU: expected padding in front of a row's tokens or behind its last "
             "token with a weight, found it at token ",
             i - begin, " of row ", sequence, "; use the device cpu");
  }
}

bool has_padding_in_front(const TrainingBatch& batch) {
  if (batch.present.empty()) return false;
  for (int64_t sequence = 0; sequence < batch.sequences; ++sequence)
    if (!batch.present[size_t(sequence * batch.time)]) return true;
  return false;
}

}  // namespace deltasane
