#include "model/cpu/load_weights.h"

namespace deltasane {

using kernel::Weights;
using kernel::WeightType;

namespace {

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
    default:
      return std::nullopt;
  }
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
  if (direct == WeightType::q8 && wanted.value_or(WeightType::q8) == WeightType::q8)
    return Weights::from_q8_0(stored->bytes, out, in, memory);
  if (direct && direct != WeightType::q8) {
    const Weights there = Weights::view(*direct, stored->bytes.data(), out, in);
    if (wanted.value_or(*direct) == *direct) return Weights::copied(there, memory);
    if (wanted == WeightType::q8) return Weights::quantized(there, memory);
  }
  const WeightType type = wanted.value_or(nearest_type(matrix.type));
  return Weights::copied(type, matrix.read().span(), out, in, memory);
}

}  // namespace deltasane
