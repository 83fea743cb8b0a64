// One layer of RWKV-7 on a GPU, forward and backward over all rows of a batch: the mathematics of
// layer_pass.h. Real: float or bf16.
#pragma once

#include <span>

#include "train/gpu/gpu_pass.h"

namespace deltasane::train::gpu {

// From x to x_out, both (rows, C), filling `act`. v_first: written by layer 0, read by the others.
// x_out null: only what the way back needs.
template <class Real>
void layer_forward(const GpuPass<Real>& c, int64_t layer, const float* x,
                   const LayerBuffers<Real>& act, Real* v_first, float* x_out);

// dx: the gradient of x_out becomes that of x. dv_first: added to, and taken by layer 0.
template <class Real>
void layer_backward(const GpuPass<Real>& c, int64_t layer, const float* x,
                    const LayerBuffers<Real>& act, const Real* v_first, float* dv_first,
                    const BackwardBuffers<Real>& s, float* dx);

// The gradients of SANE's own parameters, which layer_backward leaves: of layers that follow each
// other, `layer` the first, with their buffers as it left them. At most so many at once.
template <class Real>
constexpr int64_t most_threshold_layers = kernel::cuda::TauWeightsGradient<Real>::most_layers;
template <class Real>
void threshold_weights_backward(const GpuPass<Real>& c, int64_t layer,
                                std::span<const LayerBuffers<Real>> buffers);

}  // namespace deltasane::train::gpu
