// For tests: an RWKV-7 that is built, not trained, with heads that grow at a known rate.
//
// Every layer sees the embedding only (what layers add is zero), tokens are 'a' and 'b' in turn,
// and heads without a plan forget at once. A planned head never forgets and either
//
//   linear        adds the same v k' for every token and erases nothing: |S| = rate t
//   exponential   erases along k1 with rates (1, 0) after 'a' and along k2 with rates (0, 1) after
//                 'b'. Each contracts, their product does not: with s^2 = p^2 = x, k1 = (c, s) and
//                 k2 = (p, q) of length 1, M1 M2 has the trace 3x - x^2 and the determinant x^2, so
//                 that x = g (3 - sqrt(5 - 4g)) / (2 + 2g) gives it the eigenvalue g > 1
#pragma once

#include <cstdint>
#include <vector>

#include "corpus/source.h"
#include "model/rwkv7/checkpoint/source.h"

namespace deltasane::test {

struct PlannedHead {
  int64_t layer, head;
  bool exponential;
  double rate;  // per token: of the norm, or of its logarithm
};

// Writes the model as safetensors: 256 tokens, 4 heads of 16 per layer.
void write_stress_model(const fs::path& path, int64_t layers, const std::vector<PlannedHead>& plan);

// "abab..." for ever.
class AlternatingSource : public corpus::Source {
 public:
  corpus::Piece piece(uint64_t) const override;
  std::string description() const override { return "alternating"; }
};

}  // namespace deltasane::test
