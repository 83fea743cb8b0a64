// Matrices of a file as weights to compute with.
#pragma once

#include <functional>
#include <optional>

#include "format/tensor_file.h"
#include "kernel/matmul/weights.h"

namespace deltasane {

// A matrix (out, in) of a file.
struct StoredMatrix {
  std::optional<StoredTensor> packed;  // row-major and aligned, where it lies so
  StoredType type;
  Shape shape;
  std::function<Tensor<float>()> read;  // where `packed` is no use
};

// The type that has the numbers of a stored one.
std::optional<kernel::WeightType> direct_type(StoredType type);

// In the file's type, unless another is wanted. The file's own pages are small ones, so that
// numbers that could be used where they lie are copied too.
kernel::Weights load_weights(const StoredMatrix& matrix, std::optional<kernel::WeightType> wanted,
                             kernel::WeightMemory* memory);

// The type of matrices that are not stored as they are used: factors, and foreign quantisations.
kernel::WeightType nearest_type(StoredType type);

}  // namespace deltasane
