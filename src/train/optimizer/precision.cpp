#include "train/optimizer/precision.h"

#include "base/error.h"

namespace deltasane::train {

Precision precision_named(std::string_view name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  fail(Fault::usage, "optimizer.precision: expected fp32 or bf16, found '", name, "'");
}

std::string_view name_of(Precision precision) {
  return precision == Precision::bf16 ? "bf16" : "fp32";
}

}  // namespace deltasane::train
