// The steps of block.h and block_backward.h over all rows of a batch on the CPU, with activations
// kept.
#pragma once

#include <optional>
#include <span>

#include "kernel/delta_rule/delta_rule.h"
#include "kernel/activation/activation.h"
#include "kernel/norm/norm.h"
#include "kernel/rows/add_rows.h"
#include "kernel/sane/tau.h"
#include "kernel/time_mix/time_mix.h"
#include "kernel/token_shift/token_shift.h"
#include "model/rwkv7/block.h"
#include "model/rwkv7/train/activations.h"
#include "model/rwkv7/train/cpu_pass.h"

namespace deltasane::rwkv7 {

class CpuTrainingBlock {
 public:
  // What all layers share. v_first: written by the first layer, read by the others; its gradient is
  // added to by the others and taken by the first.
  struct Shared {
    Tensor<float>&v_first, &dv_first;
    PassScratch& scratch;
  };
  CpuTrainingBlock(const CpuPass& pass, const ModelSlots& model, int64_t layer,
                   LayerActivations& act, const Shared& shared)
      : c_(pass),
        l_(model.layers[size_t(layer)]),
        is_first_(layer == 0),
        act_(act),
        v_first_(shared.v_first),
        dv_first_(shared.dv_first),
        s_(shared.scratch) {}

  // From act.x to x_out, filling `act`. Null: only what the backward pass needs.
  void forward(Tensor<float>* x_out);
  // dx: the gradient of x_out becomes that of act.x.
  void backward(Tensor<float>& dx);

  // The steps. What they read and write is in the activations and the scratch.
  bool is_first_layer() const { return is_first_; }
  void fork() {}
  void join() {}
  void norm_shift(Half half);
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
  Tensor<float>& mix(Mix which) { return s_.mix[size_t(which)]; }
  Tensor<float>& low(const LowRank& pair);
  Tensor<float>& raw(const LowRank& pair);
  Tensor<float>& projected(const Projection& one);
  void make_mixes(Half half);
  void tau_mix_backward();
  kernel::DeltaRule<float> delta_rule();
  View<float> sequence(Tensor<float>& all, int64_t i) const {
    return all.view().slice(0, i * c_.time, c_.time);
  }

  const CpuPass& c_;
  const LayerSlots& l_;
  bool is_first_;
  LayerActivations& act_;
  Tensor<float>&v_first_, &dv_first_;
  PassScratch& s_;
  Tensor<float>*x_out_ = nullptr, *dx_ = nullptr;
};

}  // namespace deltasane::rwkv7
