// What the operators of training on a GPU do not support; each fails and says what to do instead.
// Needs no GPU.
#pragma once

#include <optional>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/sane.h"

namespace deltasane::rwkv7::gpu {

void expect_trainable(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane);

}  // namespace deltasane::rwkv7::gpu
