// Numbers of a tensor file that are an infinity or NaN, found in the stored bytes: the elements, or
// the block scales of quantized types. Foreign types are not looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "format/tensor_file.h"

namespace deltasane {

struct NonFinite {
  std::string tensor;   // the first one, in file order, that has such a number
  int64_t index = 0;    // of the first in it, row-major
  float value = 0;      // there
  int64_t count = 0;    // in that tensor
  int64_t tensors = 0;  // that have such numbers
};

// Reads the whole file, on several threads where it is large.
std::optional<NonFinite> find_non_finite(const TensorFile& file);
// From what a pass over the file has found: `bad` says of each tensor whether it has such numbers.
std::optional<NonFinite> first_non_finite(const TensorFile& file, const std::vector<char>& bad);
std::string to_string(const NonFinite& found);  // for a message

enum class NonFiniteWeights { refuse, allow };

class NonFiniteError : public Error {
 public:
  explicit NonFiniteError(const std::string& message) : Error(Fault::overflow, message) {}
};
}  // namespace deltasane
