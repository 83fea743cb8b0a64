// What the operators of training on a GPU do not have; each fails and says what to do instead. No
// GPU is needed to be told.
#pragma once

#include <optional>

#include "train/batch.h"
#include "train/parameters.h"

namespace deltasane::train::gpu {

void expect_trainable(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane);

// The operators take every token as present. That is no difference where padding follows a row's
// last weight: nothing after it has a loss.
void expect_padding_last(const Batch& batch);

}  // namespace deltasane::train::gpu
