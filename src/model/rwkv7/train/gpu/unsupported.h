// What the operators of training on a GPU do not support; each fails and says what to do instead.
// Needs no GPU.
#pragma once

#include <optional>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/sane.h"
#include "model/train/training_batch.h"

namespace deltasane::rwkv7::gpu {

void expect_trainable(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane);

// Padding may be in front of a row's tokens and behind them, not between them. In front of them
// the state is still 0 and stays so where token shift sees zeros; behind the last weight nothing
// has a loss.
void expect_padding_at_the_ends(const TrainingBatch& batch);
bool has_padding_in_front(const TrainingBatch& batch);

}  // namespace deltasane::rwkv7::gpu
