#include "model/gated_delta/train/gpu/unsupported.h"

#include <algorithm>

namespace deltasane::gated_delta::gpu {

void expect_trainable(const Config& c) {
  const auto expect = [](bool holds, const auto&... what) {
    if (!holds) fail(Fault::usage, "training on a GPU: expected ", what..., "; use the device cpu");
  };
  expect(!c.has(Mixer::latent), "a recurrence or attention, found latent attention");
  expect(std::ranges::count(c.experts, true) == 0, "dense networks, found experts");
  expect(c.channels % 64 == 0 && c.channels <= 8192, "a multiple of 64 channels up to 8192, found ",
         c.channels);
  expect(c.key_size <= 256, "heads of up to 256 key channels, found ", c.key_size);
}

}  // namespace deltasane::gated_delta::gpu
