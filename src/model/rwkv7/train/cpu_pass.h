// A training pass of RWKV-7 on the CPU.
#pragma once

#include "model/rwkv7/train/slots.h"
#include "model/train/training_pass.h"

namespace deltasane::rwkv7 {

struct CpuPass : TrainingPass {
  const Rwkv7Shape& shape;
};

}  // namespace deltasane::rwkv7
