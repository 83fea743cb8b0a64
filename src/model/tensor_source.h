// Anything that has a model's tensors under their names: a checkpoint, or a model in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/tensor_file.h"

namespace deltasane {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(std::string_view name) const = 0;
  virtual Shape shape(std::string_view name) const = 0;
  virtual Tensor<float> read(std::string_view name) const = 0;  // of that shape
  // The stored bytes themselves, when they lie packed, in this orientation and on a boundary that
  // suits their type. Good for as long as the source lives.
  virtual std::optional<StoredTensor> in_place(std::string_view) const { return std::nullopt; }
  virtual std::string where() const { return "model"; }         // for messages
};

}  // namespace deltasane
