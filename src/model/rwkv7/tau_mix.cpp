#include "model/rwkv7/tau_mix.h"

namespace deltasane::rwkv7 {

void tau_mix(const TauMix& op) {
  const int64_t channels = op.u.shape[1];
  for (int64_t c = 0; c < op.out.shape[0]; ++c) {
    const int64_t t = op.first + c * op.chunk;
    const float* const u = op.u.at(t);
    const float* const before = t > 0 ? op.u.at(t - 1) : op.before;
    float* const x = op.out.at(c);
    for (int64_t i = 0; i < channels; ++i) x[i] = u[i] + (before[i] - u[i]) * op.mu[i];
  }
}

}  // namespace deltasane::rwkv7
