// A model with heads that never forget, so that its state overflows: a random one has none.
//
// A planted head keeps every channel (its decay is 1) and hardly erases. What it erases makes it
// grow. With f a number of the token (near normal: x_a through one column of att.a1)
//
//   even channels   key m (1 - f/4), erase rate about e^(bias + 2f)
//   odd channels    key m (1 + f/4), erase rate about e^(bias - 2f)
//
// so that the smaller key erases more. No single step S (I - k (rate k)') grows for ever, but the
// mean over tokens does: with rows of S as s on even and -s on odd channels, each token adds
// rate_even k_even (k_odd - k_even), and as much for odd ones, to log |s|, which is above zero
// where it counts.
//
// In the layers of planted heads one channel of ln1 is 1 for every token (keys need a constant and
// have no bias), and x_k is x_a. All else is as in the source.
#pragma once

#include <cstdint>

#include "model/rwkv7/checkpoint/source.h"

namespace deltasane {

struct SlowHeads {
  int64_t count = 0;  // over the whole model, evenly spread
  // Of the erase rate. With -7 the state grows by e in one to five thousand tokens and passes the
  // largest float before half a million. One more: 2.7 times as fast.
  double bias = -7;
};

class SlowHeadsRwkv7 : public TensorSource {
 public:
  // The source must outlive this. Fails for more heads than the model has.
  SlowHeadsRwkv7(const TensorSource& source, const Rwkv7Shape& shape, const SlowHeads& heads);

  std::vector<std::string> names() const override { return source_.names(); }
  bool has(std::string_view name) const override { return source_.has(name); }
  Shape shape(std::string_view name) const override { return source_.shape(name); }
  Tensor<float> read(std::string_view name) const override;
  std::string where() const override { return source_.where(); }

  std::vector<int64_t> heads_of(int64_t layer) const;  // which are planted

 private:
  void plant(std::string_view suffix, int64_t layer, int64_t head, View<float> tensor) const;

  const TensorSource& source_;
  Rwkv7Shape shape_;
  SlowHeads heads_;
};

}  // namespace deltasane
