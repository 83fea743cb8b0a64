#include "model/rwkv7/checkpoint/fill.h"

#include <vector>

#include "format/quantize.h"

namespace deltasane {

void fill_tensor(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink) {
  constexpr size_t piece = size_t{1} << 18;  // elements; whole blocks of every type
  require(values.elements() == tensor.shape.elements(), "a tensor has the elements it planned");
  const std::span<const float> all = values.span();
  std::vector<std::byte> bytes;
  for (size_t first = 0; first < all.size(); first += piece) {
    const std::span<const float> part = all.subspan(first, std::min(piece, all.size() - first));
    bytes.resize(stored_bytes(tensor.type, part.size(), tensor.name));
    quantize_from_float(tensor.type, part, bytes, cat("tensor ", tensor.name, " from ", first));
    sink(bytes);
  }
}

void fill_transposed(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink) {
  const int64_t rows = values.shape()[0], columns = values.shape()[1];
  Tensor<float> turned({columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
  fill_tensor(tensor, turned, sink);
}

}  // namespace deltasane
