#include "format/contents/finite.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "format/contents/contents.h"

namespace deltasane {

std::optional<NonFinite> find_non_finite(const TensorFile& file) {
  const ContentsFound contents = read_contents(file, {.checksums = false, .numbers = true});
  return first_non_finite(file, contents.non_finite);
}

std::optional<NonFinite> first_non_finite(const TensorFile& file, const std::vector<char>& bad) {
  const auto first = std::ranges::find(bad, 1);
  if (first == bad.end()) return std::nullopt;
  const StoredTensor& tensor = file.tensors()[size_t(first - bad.begin())];
  NonFinite found{.tensor = tensor.name};
  const Tensor<float> numbers = file.read(tensor);
  for (int64_t i = numbers.elements(); i-- > 0;)
    if (!std::isfinite(numbers[i])) {
      found.index = i;
      found.value = numbers[i];
      ++found.count;
    }
  found.tensors = std::ranges::count(bad, 1);
  return found;
}

std::string to_string(const NonFinite& found) {
  return cat("tensor ", printable(found.tensor), ": ", found.value, " at element ", found.index,
             "; not finite: ", found.count, " of its numbers, in ", found.tensors,
             found.tensors == 1 ? " tensor" : " tensors");
}

}  // namespace deltasane
