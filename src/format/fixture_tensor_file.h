// For tests: damaged files of tensors.
#pragma once

#include "format/tensor_file.h"
#include "support/fixture_bytes.h"

namespace deltasane::test {

// A reader for the sweeps below: it reads a file and all its tensors.
template <class Reader>
auto read_all(Reader reader) {
  return [reader](std::span<const std::byte> bytes) {
    const TensorFile file = reader(bytes, "file");
    for (const StoredTensor& tensor : file.tensors())
      if (tensor.type != StoredType::foreign) file.read(tensor);
  };
}

}  // namespace deltasane::test
