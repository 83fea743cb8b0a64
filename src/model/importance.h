// What an error of each input's weights costs, by matrix: the mean square of what the matrix is multiplied with, over
// some text. A safetensors file of vectors (in), f32, with the names of the matrices.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "kernel/matmul/low_bits/input_squares.h"
#include "model/language_model.h"

namespace deltasane {

class Importance {
 public:
  static Importance read(const fs::path& path);

  // For quantize_from_float: each positive, so that no weight is free. Fails where the file has none for the matrix,
  // or of another size.
  std::vector<float> of(const std::string& matrix, int64_t inputs) const;

 private:
  std::string name_;  // of the file
  std::map<std::string, std::vector<float>> squares_;
};

// Of all matrices that a model lists.
void write_importance(const fs::path& path, const LanguageModel& model,
                      const kernel::InputSquares& squares);

}  // namespace deltasane
