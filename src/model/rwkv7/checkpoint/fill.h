// From floats to a planned tensor's bytes, a piece at a time.
#pragma once

#include "format/tensor_plan.h"
#include "tensor/tensor.h"

namespace deltasane {

void fill_tensor(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink);
// The same with rows and columns exchanged; `values` has two dimensions.
void fill_transposed(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink);

}  // namespace deltasane
