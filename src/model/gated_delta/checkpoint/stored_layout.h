// The tensors of a file in another program's layout, made of ours: a TensorMap read backwards, so that
// names and orders of rows are written once for reading and writing.
#pragma once

#include <string>
#include <vector>

#include "model/gated_delta/checkpoint/tensor_map.h"
#include "model/tensor_source.h"

namespace deltasane::gated_delta {

class StoredLayout {
 public:
  // map_names: of the other layout. The source has our tensors of the config.
  StoredLayout(const Config& config, const TensorSource& source, void (*map_names)(TensorMap&));
  StoredLayout(const StoredLayout&) = delete;  // parts point into the map
  StoredLayout& operator=(const StoredLayout&) = delete;

  // In the order in which they were first asked for; without numbers.
  const std::deque<StoredTensor>& tensors() const { return map_.planned(); }
  Tensor<float> make(std::string_view stored);

 private:
  const Tensor<float>& changed_back(const std::string& ours, const Part& part);

  const Config& config_;
  const TensorSource& source_;
  TensorMap map_;
  std::string last_;  // whose numbers are in values_: several stored tensors are made of one of ours
  Tensor<float> values_;
};

}  // namespace deltasane::gated_delta
