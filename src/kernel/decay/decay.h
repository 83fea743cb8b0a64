// Decays of the gated rules from a layer's projection, on the CPU, in place.
//
//     w = exp(-rate softplus(z + bias))             softplus(x) = log(1 + exp(x))
//     w = exp(bound sigmoid(rate (z + bias)))       where there is a lower bound of log w
//
// z, w   (rows, heads n): n = 1, a decay of a head, or one for each of its key channels
// rate   (heads), exp(A_log) of a checkpoint
// bias   (heads n)
//
// reference.h is the definition.
#pragma once

#include <optional>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

struct Decay {
  View<float> z;
  int64_t heads;
  const float *rate, *bias;
  std::optional<float> bound{};  // below 0
};
void decay(const Decay& op, const Cpu& cpu);

// Sums over rows are taken in an order that depends on the shape alone.
struct DecayGradient {
  View<const float> z;  // as decay was given it
  int64_t heads;
  const float *rate, *bias;
  View<float> dw;            // becomes the gradient of z
  float *dlog_rate, *dbias;  // (heads), (heads n), added to; log_rate: A_log, rate = exp(log_rate)
  std::optional<float> bound{};
};
void decay_backward(const DecayGradient& op, const Cpu& cpu);

}  // namespace deltasane::kernel
