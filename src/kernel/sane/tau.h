// SANE's threshold tau, on the CPU. At the end of a chunk the state of each head becomes
// tau tanh(S / tau) (delta_rule), with
//
//     tau = alpha softplus(z) + 1        z = x_tau W
//     dtau/dz = alpha sigmoid(z)
//
// This folder is the only home of the formula. A model without trained W has z = 0: tau is
// alpha ln 2 + 1. Computed in double and rounded once to float, on the CPU and by cuda.h; a fused
// decode kernel computes it in float (cuda_tau.cuh). reference.h is the definition.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane::kernel {

double tau_of(double z, double alpha);
double tau_at_zero(double alpha);  // alpha ln 2 + 1
double alpha_at_zero(double tau);  // its inverse
double tau_derivative(double z, double alpha);

// z, tau: (count, H); they may be the same memory. z empty: all 0.
void tau_forward(std::span<const float> z, double alpha, std::span<float> tau);
// The same with an alpha for each head, (H).
void tau_forward_per_head(std::span<const float> z, std::span<const float> alphas,
                          std::span<float> tau);

// dtau, (count, H), becomes dz.
void tau_backward(std::span<const float> z, double alpha, std::span<float> dtau);

}  // namespace deltasane::kernel
