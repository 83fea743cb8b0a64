// The part of Python's pickle (protocol 2) that a saved dictionary of tensors needs, and nothing
// else: an opcode outside the list, a name outside the table, or a call of anything but the four
// known functions ends the reading. Nothing is ever looked up or run.
//
// Values live in one pool and refer to each other by number, so depth costs no stack.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/stored_type.h"

namespace deltasane {

struct PickleLimits {
  size_t values = 1'000'000;  // also of stack, marks and memo
};

// A tensor as the pickle describes it; nothing has been compared with the storages yet.
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
