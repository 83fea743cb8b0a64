// The steps of block.h and block_backward.h over all rows of a batch on a GPU, with activations
// kept. Real: float or bf16. tau is computed in a side stream, beside the products of the mixes.
#pragma once

#include <span>

#include "model/rwkv7/block.h"
#include "model/rwkv7/train/gpu/pass.h"

namespace deltasane::rwkv7::gpu {

// At most so many layers have the gradients of SANE's own parameters at once.
template <class Real>
constexpr int64_t most_tau_layers = kernel::cuda::TauWeightsGradient<Real>::most_layers;

template <class Real>
class GpuTrainingBlock {
 public:
  // x: the layer's input, (rows, C). v_first: written by the first layer, read by the others; its
  // gradient is added to by the others and taken by the first.
  struct Shared {
    Real* v_first;
    float* dv_first;
    const BackwardBuffers<Real>& backward;
  };
  GpuTrainingBlock(const GpuPass<Real>& pass, int64_t layer, const float* x,
                   const LayerBuffers<Real>& act, const Shared& shared)
      : c_(pass),
        l_(pass.slots.layers[size_t(layer)]),
        is_first_(layer == 0),
        x_(x),
        act_(act),
        v_first_(shared.v_first),
        dv_first_(shared.dv_first),
        s_(shared.backward) {}

  // To x_out, (rows, C), filling `act`. Null: only what the backward pass needs.
  void forward(float* x_out);
  // dx: the gradient of x_out becomes that of x. That of SANE's own parameters is left to
  // tau_weights_backward.
  void backward(float* dx);

  // The steps.
  bool is_first_layer() const { return is_first_; }
  void norm_shift(Half half);
  void fork();
  void join() {}  // what reads tau, or the gradient of its mix, waits for the side stream
  void project(std::span<const Projection> all);
  void low_rank(std::span<const LowRank> pairs);
  void tau();
  template <class Body>
  void heads(const Body& body) {
    body(*this);
  }
  void store_v_first();
  void time_mix_inputs();
  void recurrence();
  void time_mix_output();
  void add_output();
  void hidden(Activation activation);
  void add_hidden();
  void store_shift(Half) {}  // every sequence ends with the batch

  void add_hidden_backward();
  void hidden_backward(Activation activation);
  void norm_shift_backward(Half half);
  void add_output_backward();
  void time_mix_output_backward();
  void recurrence_backward();
  void time_mix_inputs_backward();
  void take_v_first_gradient();
  void tau_backward();
  void project_backward(std::span<const Projection> all);
  void low_rank_backward(const LowRank& pair);

 private:
  Real* mix(Mix which) const;
  Real* low(const LowRank& pair) const;
  void join_side() const {
    if (c_.size.chunks) c_.side->join();
  }
  // The fused operators with their arguments, as forward and backward both need them.
  kernel::cuda::NormShift<Real> time_mix_shift() const;
  kernel::cuda::NormShift<Real> channel_mix_shift() const;
  kernel::cuda::TimeMixInputs<Real> inputs() const;
  kernel::cuda::DeltaRule<Real> delta_rule() const;
  kernel::cuda::TimeMixOutput<Real> output() const;

  const GpuPass<Real>& c_;
  const LayerSlots& l_;
  bool is_first_;
  const float* x_;
  const LayerBuffers<Real>& act_;
  Real* v_first_;
  float* dv_first_;
  const BackwardBuffers<Real>& s_;
  float *x_out_ = nullptr, *dx_ = nullptr;
};

// The gradients of SANE's own parameters, of layers that follow each other, `layer` the first, with
// their buffers as GpuTrainingBlock::backward left them.
template <class Real>
void tau_weights_backward(const GpuPass<Real>& c, int64_t layer,
                          std::span<const LayerBuffers<Real>> buffers);

}  // namespace deltasane::rwkv7::gpu
