// A mixture of experts (experts.h) on a GPU. Real is float or bf16: the type of weights, inputs and
// what lies between; scores and sums are float.
//
// Few rows read each of their experts' weights by themselves; nothing is known to the host, so that
// the work can be captured. Of many rows those of one expert are brought together: the host is told
// the choices (slots.h), gathers the rows, multiplies those of each expert, and adds the results.
//
// reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernel/experts/experts.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct RouteRows {
  Router router;  // with its bias on the GPU
  int64_t rows = 0, experts = 0;
  const float* logits = nullptr;  // (rows, experts)
  Choice* chosen = nullptr;       // (rows, used)
};
void route_rows(const RouteRows& op, const Gpu& gpu);

inline constexpr int64_t most_rows_of_experts = 16;  // that are few

template <class Real>
struct ExpertRows {
  int64_t rows = 0, used = 0, experts = 0, channels = 0, width = 0;
  const Choice* chosen = nullptr;  // (rows, used)
  const Real* gate_and_up = nullptr;  // (2, experts, width, channels)
  const Real* down = nullptr;         // (experts, channels, width)
  const Real* x = nullptr;            // (rows, channels)
  float* hidden = nullptr;            // (rows, used, width): scratch
  float* y = nullptr;                 // (rows, channels), added to
};
template <class Real>
void add_expert_rows(const ExpertRows<Real>& op, const Gpu& gpu);

template <class Real>
struct GatherRows {
  int64_t slots = 0, channels = 0;
  const int32_t* row = nullptr;  // (slots)
  const Real* x = nullptr;       // (rows, channels)
  Real* y = nullptr;             // (slots, channels)
};
template <class Real>
void gather_rows(const GatherRows<Real>& op, const Gpu& gpu);

// y of a row += the sum over its choices of their weights times x of their places.
struct AddSlots {
  int64_t rows = 0, used = 0, channels = 0;
  const Choice* chosen = nullptr;  // (rows, used)
  const int32_t* place = nullptr;  // (rows, used)
  const float* x = nullptr;        // (slots, channels)
  float* y = nullptr;              // (rows, channels)
};
void add_slots(const AddSlots& op, const Gpu& gpu);

// x of a row times sigmoid(z).
template <class Real>
struct ScaledRows {
  int64_t rows = 0, channels = 0;
  const float* z = nullptr;  // (rows)
  Real* x = nullptr;         // (rows, channels)
};
template <class Real>
void scale_rows(const ScaledRows<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
