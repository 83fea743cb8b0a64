// What a GGUF file is to have, besides what a model says of itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "format/gguf/gguf.h"
#include "format/quantize/matrix_types.h"

namespace deltasane {

struct GgufRequest {
  enum class Keep { nothing, stored_types };

  MatrixTypes types;
  Keep keep = Keep::nothing;              // stored_types: each matrix keeps the type that it has
  std::vector<GgufEntry> tokenizer = {};  // its entries; none: the file has no tokenizer
  Metadata metadata = {};                 // what the file repeats, and SANE's settings
  WriteProgress progress = {};
  // Inputs of a matrix: its name in the checkpoint and how many; what errors cost. Empty: all the same.
  std::function<std::vector<float>(const std::string& matrix, int64_t inputs)> importance = {};
};

}  // namespace deltasane
