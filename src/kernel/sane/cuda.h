// SANE's tau (tau.h) and its gradients on a GPU. Real is float or bf16: the type of what matrix
// products read and write; tau, z and gradients of parameters are float. "Ends" are the rows of all
// sequences that end a chunk.
//
//     x_tau = u + (p - u) mu_tau        z = x_tau W        tau = alpha softplus(z) + 1
//
// x_tau is token_shift's (norm_shift), z a matrix product's. Backward in two parts, because the
// gradients of W and mu_tau are best made for several layers at once:
//
//     tau_mix_backward       dz = dtau alpha sigmoid(z)        dx_tau = dz W'
//     tau_weights_backward   dW += x_tau' dz                   dmu_tau += sum_h W_h (away' dz_h)
//
// with away = p - u, and the sum over heads.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// z, tau: (count); z is float.
void tau_forward(const float* z, int64_t count, double alpha, float* tau, const Gpu& gpu);
// The same with an alpha for each head; z and tau: (count, H), alphas: (H); z null: all 0.
void tau_forward_per_head(const float* z, int64_t count, int64_t heads, const float* alphas,
                          float* tau, const Gpu& gpu);
// Chunks that hold padding are not neutralized: where whole, (ends), is 0, tau, (ends, H), becomes
// unbounded_tau, with which tau tanh(S / tau) is S bit for bit and dtau is 0.
inline constexpr float unbounded_tau = 0x1p60f;
void unbound_tau(const uint8_t* whole, int64_t ends, int64_t heads, float* tau, const Gpu& gpu);
// tau[i] = value, (count).
void fill_tau(float* tau, int64_t count, float value, const Gpu& gpu);

// dz = dtau alpha sigmoid(z), (count).
template <class Real>
void tau_backward(const float* z, const float* dtau, int64_t count, double alpha, Real* dz,
                  const Gpu& gpu);
// Rows of the tokens that end chunks, to the rows of all tokens: row t of sequence n of x, where it
// ends chunk i, is added row (n, i) of ends. x: (sequences, time, C), ends: (sequences, chunks, C).
struct ChunkEnds {
  int64_t sequences = 0, time = 0, channels = 0, chunk = 16;
};
void add_chunk_ends(const ChunkEnds& rows, const float* ends, float* x, const Gpu& gpu);

template <class Real>
struct TauMixGradient {
  int64_t ends, channels, heads;
  float alpha;
  const float *z, *dtau;  // (ends, H)
  const Real* weight;     // W, (C, H)
  float* dz;              // (ends, H), for tau_weights_backward
  Real* dx_tau;           // (ends, C), for norm_shift_backward
};
template <class Real>
void tau_mix_backward(const TauMixGradient<Real>& op, const Gpu& gpu);

template <class Real>
struct TauWeightsGradient {
  static constexpr int most_layers = 8;
  int64_t ends, channels, heads;
  int layers;
  struct Layer {
    const Real *x_tau, *away;  // norm_shift's out_tau and away_tau, (ends, C)
    const float* dz;           // tau_mix_backward's
    const Real* weight;        // W
    float *dweight, *dmu;      // (C, H) and (C), added to
  } layer[most_layers];
};
template <class Real>
void tau_weights_backward(const TauWeightsGradient<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
