#include "model/cpu/load_weights.h"

#include <vector>

#include "format/quantize/quantize.h"

namespace deltasane {

using kernel::Weights;
using kernel::WeightType;

std::optional<WeightType> direct_type(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return WeightType::f32;
    case StoredType::f16:
      return WeightType::f16;
    case StoredType::bf16:
      return WeightType::bf16;
    case StoredType::q8_0:
      return WeightType::q8;
    case StoredType::q6_k:
      return WeightType::q6_k;
    case StoredType::q5_k:
      return WeightType::q5_k;
    case StoredType::q4_k:
      return WeightType::q4_k;
    case StoredType::q4_0:
      return WeightType::q4;
    default:
      return std::nullopt;
  }
}

namespace {

// By way of GGUF's blocks; q8 where rows are no whole blocks.
Weights with_few_bits(const StoredMatrix& matrix, WeightType wanted, kernel::WeightMemory* memory) {
  const Tensor<float> values = matrix.read();
  const int64_t out = matrix.shape[0], in = matrix.shape[1];
  for (const StoredType type :
       {StoredType::q6_k, StoredType::q5_k, StoredType::q4_k, StoredType::q4_0}) {
    if (direct_type(type) != wanted || in % layout_of(type).block != 0) continue;
    std::vector<std::byte> bytes(stored_bytes(type, uint64_t(out * in), "matrix"));
    quantize_from_float(type, values.span(), bytes, "matrix");
    return Weights::from_gguf(wanted, bytes, out, in, memory);
  }
  return Weights::quantized(values.span(), out, in, memory);
}

}  // namespace

WeightType nearest_type(StoredType type) {
  if (type == StoredType::bf16) return WeightType::bf16;
  if (type == StoredType::f16) return WeightType::f16;
  return WeightType::f32;
}

Weights load_weights(const StoredMatrix& matrix, std::optional<WeightType> wanted,
                     kernel::WeightMemory* memory) {
  const int64_t out = matrix.shape[0], in = matrix.shape[1];
  const auto& stored = matrix.packed;
  const auto direct = stored ? direct_type(stored->type) : std::nullopt;
  if (direct && is_quantized(*direct) && wanted.value_or(*direct) == *direct)
    return Weights::from_gguf(*direct, stored->bytes, out, in, memory);
  if (direct && !is_quantized(*direct)) {
    const Weights there = Weights::view(*direct, stored->bytes.data(), out, in);
    if (wanted.value_or(*direct) == *direct) return Weights::copied(there, memory);
    if (wanted == WeightType::q8) return Weights::quantized(there, memory);
  }
  const WeightType type = wanted.value_or(nearest_type(matrix.type));
  if (is_quantized(type) && type != WeightType::q8) return with_few_bits(matrix, type, memory);
  return Weights::copied(type, matrix.read().span(), out, in, memory);
}

}  // namespace deltasane
