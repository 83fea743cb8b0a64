#include "infer/state_layout.h"

#include <cmath>

#include "base/checked.h"

namespace deltasane {

uint64_t payload_bytes(const StateShape& shape, std::string_view name) {
  for (const int64_t size : {shape.layers, shape.channels, shape.heads, shape.head_size})
    if (size < 1 || size > max_state_size)
      fail(Fault::file, name, ": state shape: expected sizes from 1 to ", max_state_size,
           ", found layers ", shape.layers, ", channels ", shape.channels, ", heads ", shape.heads,
           ", head size ", shape.head_size);
  const auto layers = uint64_t(shape.layers), heads = uint64_t(shape.heads);
  const uint64_t matrix =
      checked_multiply(uint64_t(shape.head_size), uint64_t(shape.head_size), name);
  const uint64_t one_layer =
      checked_add(2 * uint64_t(shape.channels), checked_multiply(heads, matrix, name), name);
  return checked_multiply(sizeof(float), checked_multiply(layers, one_layer, name), name);
}

void check_sane(const SaneUse& sane, std::string_view name) {
  const bool none = sane.kind == SaneKind::none && sane.alpha == 0 && sane.chunk == 0;
  const bool some =
      sane.kind != SaneKind::none && std::isfinite(sane.alpha) && sane.alpha > 0 && sane.chunk > 0;
  if (!none && !some)
    fail(Fault::file, name, ": SANE: expected none with alpha 0, chunk 0, or an alpha and a chunk ",
         "above 0, found ", name_of(sane.kind), " with alpha ", sane.alpha, ", chunk ", sane.chunk);
}

StateHash::StateHash() : state_(XXH3_createState()) {
  require(state_ != nullptr, "there is memory for a checksum");
  XXH3_64bits_reset(state_);
}

StateHash::~StateHash() { XXH3_freeState(state_); }

void StateHash::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_, bytes.data(), bytes.size());
}

uint64_t StateHash::digest() const { return XXH3_64bits_digest(state_); }

}  // namespace deltasane
