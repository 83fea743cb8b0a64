// For tests: models on which the smallest error shows, or whose numbers overflow.
#pragma once

#include <cmath>

#include "model/rwkv7/random.h"

namespace deltasane::test {

// Tokens come in pairs whose logits differ by rounding alone, so the last bit of a sum decides
// which of two is drawn.
class TouchyRwkv7 : public RandomRwkv7 {
 public:
  explicit TouchyRwkv7(const Rwkv7Shape& shape)
      : RandomRwkv7(shape, 1), channels_(shape.channels) {}
  Tensor<float> read(std::string_view name) const override {
    Tensor<float> tensor = RandomRwkv7::read(name);
    if (name != "head.weight") return tensor;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      if (i / channels_ % 2) {
        const float twin = tensor[i - channels_];
        tensor[i] = i % 3 ? twin : std::nextafter(twin, i % 2 ? 1.0f : -1.0f);
      }
    return tensor;
  }

 private:
  int64_t channels_;
};

// Values of layer 1 are `scale` times larger, so that the state overflows: with 1e38 after a few
// tokens, with 1e37 and a decay of 1 after about a hundred.
class OverflowingRwkv7 : public RandomRwkv7 {
 public:
  enum class Decay { random, one };
  OverflowingRwkv7(const Rwkv7Shape& shape, float scale, Decay decay)
      : RandomRwkv7(shape, 3), scale_(scale), decay_(decay) {}
  Tensor<float> read(std::string_view name) const override {
    Tensor<float> tensor = RandomRwkv7::read(name);
    if (name == "blocks.1.att.value.weight")
      for (float& x : tensor.span()) x *= scale_;
    if (decay_ == Decay::one && name == "blocks.1.att.w0") tensor.fill(-100);
    return tensor;
  }

 private:
  float scale_;
  Decay decay_;
};

}  // namespace deltasane::test
