// What the operators of training on a GPU do not support; each fails and says what to do instead.
// Needs no GPU.
#pragma once

#include <optional>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/sane.h"
#include "model/train/training_batch.h"

namespace deltasane::rwkv7::gpu {

void expect_trainable(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane);

// The operators take every token as present. That is no difference where padding follows a row's
// last weight: nothing after it has a loss.
void expect_padding_last(const TrainingBatch& batch);

}  // namespace deltasane::rwkv7::gpu
