// The generalized delta rule with SANE on a GPU,
//
//     S <- S diag(w) + (S a) b' + v k'      y <- S r      S <- tau tanh(S / tau) where a chunk ends
//
// the operator of delta_rule.h for heads of 64, every token present, all sequences at one position.
//
// Real is float or bf16, the type of inputs and outputs; decay, tau and state are float, and so is
// all arithmetic. Tensors are packed, on the GPU, and may be absent (null) where stated.
//
// Precondition: every decay w is in (0.545, 1], because the kernels divide by products of up to 16
// decays, and nothing checks it.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/half.h"
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

// Not delta_rule.h's: Real (bf16 or float) beside float in one call, dense tensors of one head size,
// saved states and lengths; of what that one has, no other rules, padding or positions per sequence.
template <class Real>
struct DeltaRule {
  int64_t batch = 0, time = 0, heads = 0;
  int64_t position = 0;  // of the first token, of every sequence
  int64_t chunk = 16;
  const Real *r = nullptr, *k = nullptr, *v = nullptr, *a = nullptr, *b = nullptr;
  const float* w = nullptr;        // the decay itself; all (batch, time, head, 64)
  const float* tau = nullptr;      // (batch, chunks that end here, head); null: no SANE
  const float* initial = nullptr;  // (batch, head, value, key); null: zero
  float* final_state = nullptr;    // the same; null: not wanted. May be initial's own memory.
  Real* y = nullptr;               // (batch, time, head, 64)
  // (delta_rule_states) floats in which forward saves the states, so that backward, which is given
  // the same pointer, need not compute them again. Positions start a chunk of 16 then. null: not
  // saved
  float* states = nullptr;
  // (batch), on the GPU: how many of its tokens each sequence has, 1 to time; what follows them is
  // not read, and y not written there. Positions start a chunk of 16 then, and states are not
  // saved. null: all have `time`
  const int32_t* lengths = nullptr;
};
// Floats for the states before every 16 tokens and at the end, 64 x 64 each in the kernels' own
// order: (batch, head, tiles + 1).
int64_t delta_rule_states(int64_t batch, int64_t time, int64_t heads);

template <class Real>
struct DeltaRuleGradient {
  const Real* dy = nullptr;
  const float* dfinal = nullptr;  // null: zero
  Real *dr = nullptr, *dk = nullptr, *dv = nullptr, *da = nullptr, *db = nullptr;
  float* dw = nullptr;
  float* dtau = nullptr;      // like tau; required where tau is given
  float* dinitial = nullptr;  // null: not wanted
};

// Workspace of the operator between its passes; grows to the largest request and is reused by the
// next call on the same stream. Or the caller's memory: `allocate` gives so many floats, aligned to
// 128 bytes, that stay until the work of the call is done; then nothing is allocated here, and
// nothing waited for.
class DeltaRuleScratch {
 public:
  DeltaRuleScratch() = default;
  explicit DeltaRuleScratch(std::function<float*(int64_t floats)> allocate)
      : allocate_(std::move(allocate)) {}
  float* floats(const Gpu& gpu, int64_t count);

 private:
  std::function<float*(int64_t)> allocate_;
  GpuTensor<float> memory_;
};

template <class Real>
void delta_rule(const DeltaRule<Real>& op, DeltaRuleScratch& scratch, const Gpu& gpu);

// op.y and op.final_state are not used. Positions start a chunk and chunk is 16.
template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
