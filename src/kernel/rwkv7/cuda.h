// The row operations of rwkv7.h and gradient.h on a GPU, fused where one reads what another wrote.
//
// Real is float or bf16: the type of what matrix products read and write. The residual stream x,
// its gradient, raw w, decay, tau and all parameters and their gradients are float; arithmetic is
// float. Tensors are packed and on the GPU. "Added to" as in gradient.h. Rows are the tokens of all
// sequences: sequence i has the rows [i * time, (i + 1) * time). Sums over rows are taken in an
// order that depends on the shape alone.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct RowBlock {
  int64_t sequences = 0, time = 0, channels = 0;
  int64_t rows() const { return sequences * time; }
};

// x[row] = table[token]; with a norm: its layer norm.
void embed(const RowBlock& rows, const int32_t* tokens, const float* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu);
// The table in 16 bits.
void embed(const RowBlock& rows, const int32_t* tokens, const bf16* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu);

template <class Real>
void layer_norm(const RowBlock& rows, const float* x, const float* weight, const float* bias,
                float eps, Real* y, const Gpu& gpu);

inline constexpr int most_mixes = 6;

// u = layer_norm(x), never kept; out_i = u + (u of the row before - u) mu_i.
template <class Real>
struct NormShift {
  RowBlock rows;
  const float* x;
  const float *weight, *bias;
  float eps;
  const float* before = nullptr;  // (sequences, C), the u before the first row; null: zero
  float* last = nullptr;          // (sequences, C), takes the u of the last row; may be `before`
  int mixes = 0;                  // 6 for the time mix (r w k v a g), 1 for the channel mix
  const float* mu[most_mixes] = {};
  Real* out[most_mixes] = {};
  // SANE: the mix with mu_tau of the rows that end a chunk, (sequences, chunks, C). null: none
  const float* mu_tau = nullptr;
  Real* out_tau = nullptr;
  Real* away_tau = nullptr;  // takes u of the row before - u of those rows; null: not wanted
  int64_t position = 0, chunk = 16, chunks = 0;  // position of every sequence's first token
};
template <class Real>
void norm_shift(const NormShift<Real>& op, const Gpu& gpu);

// The gradient of norm_shift where `before` is zero; u and the mixes are made again from x. But
// for that of mu_tau, which tau_weights_backward has.
template <class Real>
struct NormShiftGradient {
  NormShift<Real> op;  // `out` is not used
  const Real* dout[most_mixes] = {};
  const Real* dout_tau = nullptr;  // (sequences, chunks, C), beside six mixes; null: none
  float* dx;                       // (rows, C), added to
  float *dweight, *dbias;          // (C), added to
  float* dmu[most_mixes] = {};     // (C), added to
  float* scratch;                  // (norm_shift_scratch(rows)) floats
  Real* dx_real = nullptr;         // (rows, C), takes dx as products read it; null: not wanted
};
int64_t norm_shift_scratch(const RowBlock& rows);
template <class Real>
void norm_shift_backward(const NormShiftGradient<Real>& op, const Gpu& gpu);

// tau = alpha softplus(z) + 1, (count); z is float.
void thresholds(const float* z, int64_t count, double alpha, float* tau, const Gpu& gpu);
// The same with an alpha for each head; z and tau: (count, H), z null: all 0.
void thresholds_of_heads(const float* z, int64_t count, int64_t heads, const float* alphas,
                         float* tau, const Gpu& gpu);
// The gradients of thresholds of z = x_tau W. `ends` are those of all sequences' chunks.
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

// The gradients of W and mu_tau, of several layers at once.
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

enum class GpuActivation { tanh, sigmoid, squared_relu };
template <class Real>
void activate(GpuActivation activation, Real* x, int64_t count, const Gpu& gpu);
// y: what activate left; dy becomes the gradient of what it was given.
template <class Real>
void activate_backward(GpuActivation activation, const Real* y, Real* dy, int64_t count,
                       const Gpu& gpu);

// As kernel::time_mix_inputs, from raw_* to what the recurrence reads.
template <class Real>
struct TimeMixInputs {
  RowBlock rows;  // heads of 64
  const float* raw_w;
  const Real *raw_a, *raw_k, *raw_v;
  const Real *gate, *v_first;  // null in the first layer
  const float *w0, *a0, *v0, *k_k, *k_a;
  float* w;
  Real *a, *b, *k, *v;  // k and v may be raw_k's and raw_v's own memory
};
template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op, const Gpu& gpu);

// Also of r, which no part of this operation changes: r, k and v have gradients from the recurrence
// and from time_mix_output's bonus.
template <class Real>
struct TimeMixInputsGradient {
  TimeMixInputs<Real> op;                            // w, a, b, k, v are not used
  const float* dw;                                   // the recurrence's, (rows, C)
  const Real *dr, *da, *db, *dk, *dv;                // likewise
  const float* dbonus;                               // time_mix_output_backward's, (rows, H)
  const Real* dv_bonus;                              // likewise, (rows, C)
  const Real* r;                                     // (rows, C)
  const float* r_k;                                  // (C)
  Real *draw_r, *draw_w, *draw_a, *draw_k, *draw_v;  // but for w, may be dr, da and so on
  Real* dgate;                                       // null in the first layer
  float* dv_first;  // added to (float: many layers add); null in the first layer
  float *dw0, *da0, *dv0, *dk_k, *dk_a;  // (C), added to
  float* scratch;                        // (time_mix_scratch(rows)) floats
};
int64_t time_mix_scratch(const RowBlock& rows);
template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& op, const Gpu& gpu);

// As kernel::time_mix_output: y, the recurrence's, becomes what the output matrix reads.
template <class Real>
struct TimeMixOutput {
  RowBlock rows;
  const Real *read, *r, *k, *v, *g;
  const float *weight, *bias, *r_k;
  float eps;
  Real* y;  // may be read's own memory
};
template <class Real>
void time_mix_output(const TimeMixOutput<Real>& op, const Gpu& gpu);

template <class Real>
struct TimeMixOutputGradient {
  TimeMixOutput<Real> op;  // y is not used
  const Real* dy;
  Real* dread;                    // may be dy's own memory
  float* dbonus;                  // (rows, H), of the sums of r k r_k, that v is multiplied by
  Real* dv_bonus;                 // (rows, C), of that v
  Real* dg;                       // (rows, C)
  float *dweight, *dbias, *dr_k;  // (C), added to
  float* scratch;                 // (time_mix_scratch(rows)) floats
};
template <class Real>
void time_mix_output_backward(const TimeMixOutputGradient<Real>& op, const Gpu& gpu);

// to += from
template <class Real>
void add_rows(const float* from, Real* to, int64_t count, const Gpu& gpu);

// The gradient of the table: dtable[token] += dx[row], rows in their order (no atomics: the result
// is the same every time).
void embed_backward(const RowBlock& rows, const int32_t* tokens, int64_t vocabulary,
                    const float* dx, float* dtable, int32_t* scratch, const Gpu& gpu);
int64_t embed_scratch(const RowBlock& rows, int64_t vocabulary);  // int32 elements

}  // namespace deltasane::kernel::cuda
