// From floats to a planned tensor's bytes, on several threads where there are many.
#pragma once

#include "format/tensor_plan.h"
#include "tensor/tensor.h"

namespace deltasane {

// importance: for each number of a row, what an error of it costs; empty: all the same.
void fill_tensor(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink,
                 std::span<const float> importance = {});
// The same with rows and columns exchanged; `values` has two dimensions.
void fill_transposed(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink);

}  // namespace deltasane
