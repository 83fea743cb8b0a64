// Anything that has a model's tensors under their names: a checkpoint, or a model in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace deltasane {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(std::string_view name) const = 0;
  virtual Shape shape(std::string_view name) const = 0;
  virtual Tensor<float> read(std::string_view name) const = 0;  // of that shape
  virtual std::string where() const { return "model"; }         // for messages
};

}  // namespace deltasane
