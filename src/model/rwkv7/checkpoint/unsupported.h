// Says what a checkpoint is when it is not RWKV-7.
#pragma once

#include "format/tensor_file.h"

namespace deltasane {

// Fails, naming the architecture, unless the file can be an RWKV-7.
void refuse_other_architectures(const TensorFile& file);

}  // namespace deltasane
