// The RWKV-7 recurrence with SANE on a GPU: the operator of delta_rule.h for heads of 64, every
// token present, every sequence from one position.
//
// Real is float or bf16, the type of what is read and written; decay, tau and state are float, and
// so is all arithmetic. Tensors are packed, on the GPU, and may be absent (null) where said so.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel::cuda {

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
  // (delta_rule_states) floats that the way forward fills, so that the way back, which is given the
  // same, need not make them again. Positions start a chunk of 16 then. null: not kept
  float* states = nullptr;
};
// The states before every 16 tokens and at the end, 64 x 64 each in an order of their own: (batch,
// head, tiles + 1).
int64_t delta_rule_states(int64_t batch, int64_t time, int64_t heads);

template <class Real>
struct DeltaRuleGradient {
  const Real* dy = nullptr;
  const float* dfinal = nullptr;  // null: zero
  Real *dr = nullptr, *dk = nullptr, *dv = nullptr, *da = nullptr, *db = nullptr;
  float* dw = nullptr;
  float* dtau = nullptr;      // like tau; wanted where tau is there
  float* dinitial = nullptr;  // null: not wanted
};

// Memory for what the operators keep between their own parts; grows to what was asked for and is
// used again by the next call in the same queue.
class DeltaRuleScratch {
 public:
  float* floats(const Gpu& gpu, int64_t count);

 private:
  GpuTensor<float> memory_;
};

template <class Real>
void delta_rule(const DeltaRule<Real>& op, DeltaRuleScratch& scratch, const Gpu& gpu);

// op.y and op.final_state are not used. Positions start a chunk and chunk is 16.
template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient,
                         DeltaRuleScratch& scratch, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
