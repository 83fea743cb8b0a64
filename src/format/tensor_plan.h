// The plan of a file to write: the header comes first, so names, types and shapes must be known in
// advance, while the tensors themselves are produced one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "format/stored_type.h"
#include "tensor/view.h"

namespace deltasane {

struct PlannedTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;  // row-major, slowest first

  uint64_t bytes() const { return stored_bytes(type, uint64_t(shape.elements()), name); }
};

// Passes the bytes of one tensor, in one or more chunks, to the sink.
using Sink = std::function<void(std::span<const std::byte>)>;
using FillTensor = std::function<void(const PlannedTensor&, const Sink&)>;

}  // namespace deltasane
