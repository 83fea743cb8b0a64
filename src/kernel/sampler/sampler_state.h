// A sampler's state: its position in its random stream, and how often it sampled each token.
//
// A plain value. With the same settings and the same logits, a sampler that continues from it
// samples the same tokens.
//
// As bytes (little-endian): "smp1", seed, stream, draws (u64 each), the number of counts (u32),
// then for each a token (u32) and its count (f64), tokens ascending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace deltasane {

struct TokenCount {
  int32_t token;
  double count;  // decays after each token; a token once sampled stays here
  friend bool operator==(const TokenCount&, const TokenCount&) = default;
};

struct SamplerState {
  uint64_t seed = 0, stream = 0;
  uint64_t draws = 0;              // tokens sampled so far: the number of the next draw
  std::vector<TokenCount> counts;  // ascending by token

  void count(int32_t token, double decay);  // decays all counts, then adds one to the token's

  std::vector<std::byte> save() const;
  static SamplerState load(std::span<const std::byte> bytes);  // untrusted input
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

}  // namespace deltasane
