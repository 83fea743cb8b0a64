#include "format/finite/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/printable.h"
#include "format/dequantize.h"
#include "format/parallel_read.h"

namespace deltasane {
namespace {

constexpr int64_t piece_elements = int64_t{1} << 20;  // a multiple of every block

// Whether one of the numbers has an exponent of ones only.
template <class Bits>
bool any_full_exponent(const std::byte* from, int64_t count, Bits exponent) {
  constexpr int64_t unrolled = 256;
  const auto full = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, from + i * int64_t(sizeof bits), sizeof bits);
    return Bits((bits & exponent) == exponent);
  };
  int64_t i = 0;
  for (; i + unrolled <= count; i += unrolled) {
    Bits any = 0;
    for (int64_t j = 0; j < unrolled; ++j) any |= full(i + j);
    if (any) return true;
  }
  for (; i < count; ++i)
    if (full(i)) return true;
  return false;
}

bool any_full_scale(const std::byte* from, int64_t blocks, int64_t bytes, int scales) {
  for (int64_t i = 0; i < blocks; ++i)
    if (any_full_exponent<uint16_t>(from + i * bytes, scales, 0x7c00)) return true;
  return false;
}

bool any_beyond_float(const std::byte* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, from + i * int64_t(sizeof value), sizeof value);
    if (!std::isfinite(float(value))) return true;
  }
  return false;
}

// `count` elements of the type, which lie one after another.
bool any_non_finite(StoredType type, const std::byte* from, int64_t count) {
  const StoredLayout layout = layout_of(type);
  switch (type) {
    case StoredType::f64:
      return any_beyond_float(from, count);
    case StoredType::f32:
      return any_full_exponent<uint32_t>(from, count, 0x7f800000);
    case StoredType::f16:
      return any_full_exponent<uint16_t>(from, count, 0x7c00);
    case StoredType::bf16:
      return any_full_exponent<uint16_t>(from, count, 0x7f80);
    case StoredType::q4_0:
    case StoredType::q5_0:
    case StoredType::q8_0:
      return any_full_scale(from, count / layout.block, layout.bytes, 1);
    case StoredType::q4_1:
    case StoredType::q5_1:
      return any_full_scale(from, count / layout.block, layout.bytes, 2);
    default:
      return false;
  }
}

struct Piece {
  size_t tensor;
  int64_t begin, count;  // elements
};

std::vector<Piece> pieces_of(const std::vector<StoredTensor>& tensors) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].type == StoredType::foreign) continue;
    const int64_t elements = tensors[t].shape.elements();
    const int64_t step = tensors[t].contiguous() ? piece_elements : std::max<int64_t>(elements, 1);
    for (int64_t at = 0; at < elements; at += step)
      pieces.push_back({t, at, std::min(step, elements - at)});
  }
  return pieces;
}

bool any_non_finite(const TensorFile& file, const Piece& piece) {
  const StoredTensor& tensor = file.tensors()[piece.tensor];
  if (!tensor.contiguous()) {
    const Tensor<float> numbers = file.read(tensor);
    return any_non_finite(StoredType::f32, reinterpret_cast<const std::byte*>(numbers.data()),
                          numbers.elements());
  }
  const StoredLayout layout = layout_of(tensor.type);
  return any_non_finite(tensor.type,
                        tensor.bytes.data() + piece.begin / layout.block * layout.bytes,
                        piece.count);
}

}  // namespace

std::optional<NonFinite> find_non_finite(const TensorFile& file) {
  const std::vector<StoredTensor>& tensors = file.tensors();
  const std::vector<Piece> pieces = pieces_of(tensors);
  uint64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) bytes += tensor.bytes.size();
  std::vector<char> bad(pieces.size());
  read_in_parallel(bytes, int64_t(pieces.size()), [&](int64_t i) {
    bad[size_t(i)] = any_non_finite(file, pieces[size_t(i)]);
  });
  std::vector<char> bad_tensors(tensors.size());
  for (size_t i = 0; i < pieces.size(); ++i)
    if (bad[i]) bad_tensors[pieces[i].tensor] = 1;
  const auto first = std::ranges::find(bad_tensors, 1);
  if (first == bad_tensors.end()) return std::nullopt;

  const StoredTensor& tensor = tensors[size_t(first - bad_tensors.begin())];
  NonFinite found{.tensor = tensor.name};
  const Tensor<float> numbers = file.read(tensor);
  for (int64_t i = numbers.elements(); i-- > 0;)
    if (!std::isfinite(numbers[i])) {
      found.index = i;
      found.value = numbers[i];
      ++found.count;
    }
  found.tensors = std::ranges::count(bad_tensors, 1);
  return found;
}

std::string to_string(const NonFinite& found) {
  return cat("tensor ", printable(found.tensor), ": ", found.value, " at element ", found.index,
             "; not finite: ", found.count, " of its numbers, in ", found.tensors,
             found.tensors == 1 ? " tensor" : " tensors");
}

void expect_finite(const TensorFile& file) {
  if (const auto found = find_non_finite(file))
    throw NonFiniteError(cat(file.path(), ": expected finite weights, found ", to_string(*found),
                             "; the file is damaged, or training diverged: use an earlier one"));
}

}  // namespace deltasane
