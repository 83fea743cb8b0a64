// An RWKV-7 of random weights, of any size: for tests and benchmarks.
//
// Nothing is stored: each tensor is drawn when it is read, from the seed and its name. Sizes of the
// numbers are those of a trained model, so that activations, decays and states look like one's.
#pragma once

#include <cstdint>

#include "model/rwkv7/checkpoint/source.h"

namespace deltasane {

class RandomRwkv7 : public TensorSource {
 public:
  RandomRwkv7(const Rwkv7Shape& shape, uint64_t seed) : shape_(shape), seed_(seed) {}

  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override;
  Shape shape(std::string_view name) const override;
  Tensor<float> read(std::string_view name) const override;
  std::string where() const override { return "random RWKV-7"; }

 private:
  const Rwkv7Row& row(std::string_view name) const;
  Rwkv7Shape shape_;
  uint64_t seed_;
};

// The shape of a released size: "0.1B", "0.4B", "1.5B", "2.9B"; anything else fails.
Rwkv7Shape released_shape(std::string_view size);

}  // namespace deltasane
