// Where padding may be in a batch that is trained on a GPU. Needs no GPU.
#pragma once

#include "model/train/training_batch.h"

namespace deltasane {

// Padding may be in front of a row's tokens and behind them, not between them; other batches fail.
// In front of them the state is still 0 and stays so where what the recurrence reads is 0; behind
// the last weight nothing has a loss.
void expect_padding_at_the_ends(const TrainingBatch& batch);
bool has_padding_in_front(const TrainingBatch& batch);

}  // namespace deltasane
