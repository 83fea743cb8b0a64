// Some rows of a head's state in the registers of a warp, a lane having every 32nd channel of them, and
// one token of the family's rules on them.
#pragma once

#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"

namespace deltasane::kernel::cuda {

template <int rows, int channels>
struct StateRows {
  float S[rows][channels];

  // use(row, channel of the lane, entry), for all of them.
  template <class Use>
  __device__ void each(Use&& use) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
      for (int c = 0; c < channels; ++c) use(i, c, S[i][c]);
  }

  // S = S diag(w);  u = beta (v - S k);  S = S + u k^T;  y = S r.
  // k, r, w: a lane's channels. value(row) gives v; store(row, y) is called by all lanes.
  template <class Value, class Store>
  __device__ void step(const float (&k)[channels], const float (&r)[channels],
                       const float (&w)[channels], float beta, Value&& value, Store&& store) {
    float recalled[rows] = {}, read[rows] = {}, both = 0;
#pragma unroll
    for (int c = 0; c < channels; ++c) {
      both = fmaf(k[c], r[c], both);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        S[i][c] *= w[c];
        recalled[i] = fmaf(S[i][c], k[c], recalled[i]), read[i] = fmaf(S[i][c], r[c], read[i]);
      }
    }
    both = warp_sum(both);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const float u = beta * (value(i) - warp_sum(recalled[i]));
      store(i, fmaf(u, both, warp_sum(read[i])));
#pragma unroll
      for (int c = 0; c < channels; ++c) S[i][c] = fmaf(u, k[c], S[i][c]);
    }
  }

  __device__ void neutralize(float tau) {
    Tanh(tau).apply([&](auto&& map) { each([&](int, int, float& entry) { map(entry); }); });
  }
};

}  // namespace deltasane::kernel::cuda
