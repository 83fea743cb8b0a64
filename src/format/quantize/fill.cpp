#include "format/quantize/fill.h"

#include <algorithm>
#include <vector>

#include "format/parallel_read.h"
#include "format/quantize/quantize.h"

namespace deltasane {

void fill_tensor(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink,
                 std::span<const float> importance) {
  require(values.elements() == tensor.shape.elements(), "a tensor has the elements it planned");
  if (values.elements() == 0) return;
  const Shape& shape = tensor.shape;
  const size_t row = shape.rank() == 0 ? 1 : size_t(shape[shape.rank() - 1]);
  require(importance.empty() || importance.size() == row, "a row's numbers have their importance");
  // Whole rows, and about 256 Ki elements; all of a tensor whose blocks cross its rows.
  const bool cut = row % size_t(layout_of(tensor.type).block) == 0;
  const std::span<const float> all = values.span();
  const size_t piece = cut ? std::max<size_t>(1, (size_t{1} << 18) / row) * row : all.size();
  std::vector<std::byte> bytes(tensor.bytes());
  std::vector<float> costs;  // of a piece
  if (!importance.empty())
    for (size_t at = 0; at < std::min(piece, all.size()); at += row)
      costs.insert(costs.end(), importance.begin(), importance.end());
  const auto pieces = int64_t((all.size() + piece - 1) / piece);
  read_in_parallel(all.size_bytes(), pieces, [&](int64_t number) {
    const size_t first = size_t(number) * piece;
    const std::span<const float> part = all.subspan(first, std::min(piece, all.size() - first));
    const uint64_t begin = stored_bytes(tensor.type, first, tensor.name);
    const uint64_t size = stored_bytes(tensor.type, part.size(), tensor.name);
    quantize_from_float(tensor.type, part, std::span(bytes).subspan(begin, size),
                        cat("tensor ", tensor.name, " from ", first),
                        std::span(costs).first(costs.empty() ? 0 : part.size()));
  });
  sink(bytes);
}

void fill_transposed(const PlannedTensor& tensor, const Tensor<float>& values, const Sink& sink) {
  const int64_t rows = values.shape()[0], columns = values.shape()[1];
  Tensor<float> turned({columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
  fill_tensor(tensor, turned, sink);
}

}  // namespace deltasane
