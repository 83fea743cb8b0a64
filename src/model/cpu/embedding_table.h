// The rows of an embedding, read where they lie in the file, or from a converted copy.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "format/tensor_file.h"

namespace deltasane {

class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  // stored: row-major, where it lies so; otherwise, or where blocks cross rows, it is read.
  EmbeddingTable(const std::optional<StoredTensor>& stored, int64_t vocabulary, int64_t channels,
                 const std::function<Tensor<float>()>& read_all);

  void read(std::span<const int32_t> tokens, View<float> x) const;  // (tokens, channels)
  uint64_t bytes() const;

 private:
  int64_t vocabulary_ = 0, channels_ = 0;
  std::optional<StoredTensor> stored_;
  Tensor<float> converted_;
};

}  // namespace deltasane
