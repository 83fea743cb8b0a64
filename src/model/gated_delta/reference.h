// The definition of the models of the delta-rule family, in float, double, bf16 or numbers that record
// how they were computed: whole sequences, plain loops, every weight read when it is used. It shares nothing
// with the block; docs/architectures.md has the equations.
#pragma once

#include <functional>
#include <span>
#include <string>
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
using ReadTensor = std::function<std::vector<Real>(const std::string& name)>;

// present: of each token, 0 for padding; empty: all 1. alphas: of each head of each recurrent layer,
// in place of SANE's; empty: none.
template <class Real>
Outcome<Real> forward(const Config& config, const ReadTensor<Real>& read, const SaneUse& sane,
                      std::span<const int32_t> tokens, std::span<const uint8_t> present = {},
                      std::span<const float> alphas = {});

template <class Real>
Outcome<Real> forward(const Config& config, const TensorSource& source, const SaneUse& sane,
                      std::span<const int32_t> tokens, std::span<const float> alphas = {}) {
  const ReadTensor<Real> read = [&](const std::string& name) {
    const Tensor<float> found = source.read(name);
    return std::vector<Real>(found.span().begin(), found.span().end());
  };
  return forward<Real>(config, read, sane, tokens, {}, alphas);
}

}  // namespace deltasane::gated_delta::reference
