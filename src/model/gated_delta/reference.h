// The definition of the models of the delta-rule family, in float or double: whole sequences, plain
// loops, every weight read when it is used. It shares nothing with the block; docs/architectures.md
// has the equations.
#pragma once

#include <span>
#include <vector>

#include "model/gated_delta/config.h"
#include "model/sane.h"
#include "model/tensor_source.h"

namespace deltasane::gated_delta::reference {

// The logits after each token of a sequence, (tokens, vocabulary). `memories`: of each recurrent
// layer after the last token, (head, value, key).
template <class Real>
struct Outcome {
  std::vector<Real> logits;
  std::vector<std::vector<Real>> memories;
};
template <class Real>
Outcome<Real> forward(const Config& config, const TensorSource& source, const SaneUse& sane,
                      std::span<const int32_t> tokens);

}  // namespace deltasane::gated_delta::reference
