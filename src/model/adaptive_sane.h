// SANE with a strength that follows each head while a stream is read.
//
// Every 512 tokens the Frobenius norm of each head's state is taken. The first one is the head's
// reference. Afterwards, with alpha beginning as the model's:
//
//     norm > 2 reference      alpha becomes 0.8 alpha, but not less than 1
//     norm < 1.5 reference    alpha becomes alpha / 0.8, but not more than the model's
//
// So a head that grows is held ever more tightly until it is back, and a quiet one is left alone.
// tau = alpha softplus(x_tau w_tau) + 1 as ever, with the head's own alpha from there on. The
// alphas are part of the state that questions are asked from, and of the stream's checkpoint; a
// snapshot does not have them.
//
// `follow` is the definition, and what a processor does. A GPU does the same between the blocks of a
// long reading, without asking the host (kernel/state_scan/cuda.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/state/sequence_state.h"

namespace deltasane {

struct AdaptiveSane {
  static constexpr int64_t every = 512;
  static constexpr double too_large = 2, small_again = 1.5, factor = 0.8, lowest_alpha = 1;

  std::vector<double> references;  // by head of the layout; empty before the first look

  // Where `every` tokens are full, looks at the state and sets its alphas; else nothing.
  void follow(SequenceState& state, double alpha);

  static int64_t until_next(int64_t position) { return every - position % every; }
  static std::string description();
};

}  // namespace deltasane
