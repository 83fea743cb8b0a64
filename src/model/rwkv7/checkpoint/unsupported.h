// Says what a checkpoint is when it is not RWKV-7.
#pragma once

#include "format/tensor_file.h"

namespace deltasane {

// Whether the file says, by its metadata or the names of its tensors, that it is an RWKV-7.
bool is_rwkv7(const TensorFile& file);

// Fails, naming the architecture, unless the file can be an RWKV-7.
void refuse_other_architectures(const TensorFile& file);

}  // namespace deltasane
