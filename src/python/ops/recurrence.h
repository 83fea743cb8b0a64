// The recurrence of kernel/delta_rule on arrays of Python: on the CPU in float, its definition in
// float and double.
//
// What Python adds to kernel::delta_rule: no tokens at all are no error, the state is then returned
// as it came; with cu_seqlens the tokens of one row are several texts, each with its own state; and
// decays outside of [0, 1] are refused.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::python {

// One call. cu_seqlens: (texts + 1), where each text begins and the last one ends; empty: each row
// is a text. With it batch is 1, states are (text, head, value, key), positions (text), and the
// chunks of all texts follow each other in tau and neutralize.
template <class Real>
struct Call {
  kernel::DeltaRule<Real> op;
  kernel::DeltaRuleGradient<Real> gradient;  // backward only
  std::vector<int64_t> position, cu_seqlens;
};

enum class Compute { kernels, definition };  // kernels: float only

template <class Real>
void forward(const Call<Real>& call, Compute how);
template <class Real>
void backward(const Call<Real>& call, Compute how);

// How many chunks end: the size of tau's second dimension.
int64_t chunks_ending(const std::vector<int64_t>& position, const std::vector<int64_t>& cu_seqlens,
                      int64_t time, int64_t chunk);

}  // namespace deltasane::python
