// The subset of Python's pickle (protocol 2) that a saved dictionary of tensors needs. Any other
// opcode, any global outside a fixed table, and any call of anything but the four known functions
// is an error. No code is ever imported or executed.
//
// Values are stored in one array and refer to each other by index, so nesting needs no recursion.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/stored_type.h"

namespace deltasane {

struct PickleLimits {
  size_t values = 1'000'000;  // also limits stack, marks and memo
};

// A tensor as the pickle describes it, not yet checked against the storages.
struct PickledTensor {
  std::string_view name;
  StoredType type;
  std::string_view storage;  // key
  uint64_t storage_bytes;
  int64_t offset;  // in elements
  std::vector<int64_t> size, stride;
};

// The tensors of the dictionary in `bytes`, in its order. Views point into `bytes`.
std::vector<PickledTensor> read_pickle(std::span<const std::byte> bytes, const std::string& name,
                                       const PickleLimits& limits = {});

}  // namespace deltasane
