#include "kernel/sane/tau.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace deltasane::kernel {

double tau_of(double z, double alpha) {
  const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  return alpha * softplus + 1;
}

double tau_at_zero(double alpha) { return alpha * std::log(2.0) + 1; }

double alpha_at_zero(double tau) { return (tau - 1) / std::log(2.0); }

double tau_derivative(double z, double alpha) { return alpha / (1 + std::exp(-z)); }

void tau_forward(std::span<const float> z, double alpha, std::span<float> tau) {
  require(z.empty() || z.size() == tau.size(), "tau_forward has a z for each tau, or none");
  for (size_t i = 0; i < tau.size(); ++i)
    tau[i] = float(z.empty() ? tau_at_zero(alpha) : tau_of(double(z[i]), alpha));
}

void tau_forward_per_head(std::span<const float> z, std::span<const float> alphas,
                          std::span<float> tau) {
  require(z.empty() || z.size() == tau.size(),
          "tau_forward_per_head has a z for each tau, or none");
  for (size_t i = 0; i < tau.size(); ++i) {
    const auto alpha = double(alphas[i % alphas.size()]);
    tau[i] = float(z.empty() ? tau_at_zero(alpha) : tau_of(double(z[i]), alpha));
  }
}

void tau_backward(std::span<const float> z, double alpha, std::span<float> dtau) {
  require(z.size() == dtau.size(), "tau_backward has a z for each dtau");
  for (size_t i = 0; i < dtau.size(); ++i) dtau[i] *= float(tau_derivative(double(z[i]), alpha));
}

}  // namespace deltasane::kernel
