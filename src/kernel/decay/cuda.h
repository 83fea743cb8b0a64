// Log decays (decay.h) and the strength beta of the gated rules from a layer's projections, on a GPU,
// in float.
//
//     g = -rate softplus(z + bias)             beta = beta_scale sigmoid(z_beta)
//     g = bound sigmoid(rate (z + bias))       where there is a lower bound
//
// z        (rows, heads size), `z_step` numbers from row to row; null: no decay
// z_beta   (rows, heads), `beta_step` from row to row; null: beta = 1
// g        (rows, heads size), packed; beta (rows, heads), packed
//
// reference.h is the definition.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct DecayAndBeta {
  int64_t rows = 0, heads = 0;
  int64_t size = 1;  // decays of a head: one, or one for each of its key channels
  const float* z = nullptr;
  int64_t z_step = 0;
  const float *rate = nullptr, *bias = nullptr;  // (heads), (heads size)
  float bound = 0;                               // below 0; 0: none
  float* g = nullptr;
  const float* z_beta = nullptr;
  int64_t beta_step = 0;
  float beta_scale = 1;
  float* beta = nullptr;
};
void decay_and_beta(const DecayAndBeta& op, const Gpu& gpu);

// rate = exp(log_rate), (heads): A_log of a checkpoint, which is what is trained.
void decay_rates(const float* log_rate, int64_t heads, float* rate, const Gpu& gpu);

// Sums over rows are taken in an order that depends on the shape alone.
template <class Real>
struct DecayAndBetaGradient {
  DecayAndBeta op;              // as the forward operator was given it, but for its results
  float* dg = nullptr;          // (rows, heads size); afterwards not of use
  const float* dbeta = nullptr;  // (rows, heads)
  Real* dz = nullptr;           // like z, with its step
  Real* dz_beta = nullptr;      // like z_beta
  float *dlog_rate = nullptr, *dbias = nullptr;  // (heads), (heads size), added to
  float* scratch = nullptr;                      // decay_scratch() floats
};
int64_t decay_scratch(int64_t rows, int64_t decays);
template <class Real>
void decay_and_beta_backward(const DecayAndBetaGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
