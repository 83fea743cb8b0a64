// The type of what matrix products read and write in training. Parameters, gradients and the
// optimiser are float32 in both.
#pragma once

#include <string_view>

#include "base/error.h"

namespace deltasane::train {

enum class Precision { fp32, bf16 };

inline Precision precision_named(std::string_view name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  fail(Fault::usage, "precision: expected fp32 or bf16, found '", name, "'");
}

}  // namespace deltasane::train
