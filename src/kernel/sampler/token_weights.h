// Loops over the logits or weights of a whole vocabulary, in vectors of four floats, which every
// processor has.
//
// A weight is exp((logit - largest) / temperature), as a float: the most probable token has weight
// 1, and weights below 2^-126 are 0, as are those of banned tokens. The arithmetic is plain IEEE in
// a fixed order, without the math library and without fused multiply-adds, so every machine samples
// the same token.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane {

// Within a few units in the last place for exponents near 0; further down, the exponent's own
// rounding to float adds to that: 1e-6 of the weight at exp(-20).
void fill_weights(std::span<const float> logits, float largest, double temperature,
                  std::span<float> weights);

// How many tokens have a logit of `least` or more, and the sum of their weights.
struct TokenMass {
  double mass = 0;
  int64_t tokens = 0;
};
TokenMass mass_from(std::span<const float> weights, std::span<const float> logits, float least);

double mass_of(std::span<const float> weights);

// The token where the running sum of weights, in order of ids, first exceeds `target`; if rounding
// lets none exceed it, one with a weight near there. At least one weight must be above zero.
int32_t token_at_mass(std::span<const float> weights, double target);

// The smallest logit that is `bound` or more; infinity if there is none.
float smallest_from(std::span<const float> logits, float bound);

bool any_between(std::span<const float> logits, float least, float below);  // in [least, below)

// Sets the weights of logits below `least` to 0.
void drop_below(std::span<float> weights, std::span<const float> logits, float least);

}  // namespace deltasane
