// The steps of block.h and block_backward.h over all rows of a batch on the CPU, with activations kept.
//
// Padding is a row of zeros to the convolution, leaves the recurrence's state alone and keeps its chunk
// from being neutralized; attention reads the other tokens as if it were not there, and gives 0 for it.
#pragma once

#include <vector>

#include "kernel/attention/attention.h"
#include "kernel/delta_rule/delta_rule.h"
#include "model/gated_delta/heads.h"
#include "model/gated_delta/train/activations.h"
#include "model/gated_delta/train/slots.h"

namespace deltasane::gated_delta {

struct CpuPass : TrainingPass {
  const Config& config;
};

class TrainingBlock {
 public:
  TrainingBlock(const CpuPass& pass, const LayerSlots& slots, LayerActivations& act,
                PassScratch& scratch)
      : p_(pass), c(pass.config), l_(slots), a(act), s(scratch) {}

  // From act.x to x_out, filling `act`. Null: only what the backward pass needs.
  void forward(Tensor<float>* x_out);
  // dx: the gradient of x_out becomes that of act.x.
  void backward(Tensor<float>& dx);

  // The steps. What they read and write is in the activations and the scratch.
  Mixer mixer() const { return l_.mixer; }
  bool has_experts() const { return l_.experts; }
  void norm_before_mixer();
  void norm_before_ffn();
  void project_recurrent();
  void tau();
  void convolve();
  void decay_and_beta();
  void recurrence();
  void gated_output_norm();
  void project_attention();
  void normalize_queries_and_keys();
  void rotate();
  void append_to_cache() {}  // every sequence is whole
  void attend();
  void gate_attention();
  void project_latent();
  void append_latent() {}
  void attend_latent();
  void add_mixer_output();
  void add_experts();
  void add_network();

  void add_experts_backward();
  void add_network_backward();
  void norm_before_ffn_backward();
  void add_mixer_output_backward();
  void gated_output_norm_backward();
  void recurrence_backward();
  void decay_and_beta_backward();
  void convolve_backward();
  void project_recurrent_backward();
  void tau_backward();
  void gate_attention_backward();
  void attend_backward();
  void rotate_backward();
  void normalize_queries_and_keys_backward();
  void project_attention_backward();
  void attend_latent_backward();
  void project_latent_backward();
  void norm_before_mixer_backward();

 private:
  // What a half of the layer reads: its normalised input, or its input where norms come after.
  Tensor<float>& h() { return l_.norms_after ? a.x : a.h; }
  Tensor<float>& h_ffn() { return l_.norms_after ? a.x_ffn : a.h_ffn; }
  View<float> mixed() { return narrow(a.mixed, l_.output->shape[1]); }
  View<float> gate() { return narrow(a.gate, gate_columns()); }
  View<float> dgate() { return narrow(s.dgate, gate_columns()); }
  int64_t gate_columns() const;
  bool normalizes_queries() const { return c.qk_norm != QkNorm::none; }

  void rms(Slot weight, const Tensor<float>& x, int64_t size, double eps, Tensor<float>& y);
  // sum = x + y, y with a norm where it comes after.
  void add_half(const Tensor<float>& x, Tensor<float>& y, Slot norm, Tensor<float>& sum);
  // From dx to the gradient of what a half adds: dx itself, or through the norm after it.
  View<float> half_backward(Slot norm, const Tensor<float>& y);
  void norm_before_backward(Slot norm, const Tensor<float>& x);

  Tensor<float> taps_first(Slot convolution) const;
  std::vector<float> decay_rates() const;
  void normalize_keys();
  void scale_beta();
  kernel::DeltaRule<float> delta_rule();
  void network(const LayerSlots::Network& weights, Tensor<float>& gate, Tensor<float>& up);
  View<float> hidden(const LayerSlots::Network& weights) {
    return narrow(s.hidden, weights.down->shape[1]);
  }
  // From dy to dh: overwritten, or added to.
  void network_backward(const LayerSlots::Network& weights, Tensor<float>& gate,
                        Tensor<float>& up, View<const float> dy, kernel::Store store);
  kernel::Router router() const;
  struct ExpertMatrices {
    std::vector<kernel::Weights> gate, up, down;
  };
  ExpertMatrices expert_matrices() const;

  View<float> of(int64_t sequence, View<float> all) const {
    return all.slice(0, sequence * p_.time, p_.time);
  }
  // The attention of all sequences, and its gradient: q, k, v and so on as (rows, head, channel).
  struct Heads {
    View<float> q, k, v, y;
    float scale;
  };
  struct HeadGradients {
    View<float> dy, dq, dk, dv;
  };
  Heads attention_heads();
  Heads latent_heads();
  void attend_all(const Heads& all);
  void attend_all_backward(const Heads& all, const HeadGradients& d);

  const CpuPass& p_;
  const Config& c;
  const LayerSlots& l_;
  LayerActivations& a;
  PassScratch& s;
  Tensor<float>*x_out_ = nullptr, *dx_ = nullptr;
};

}  // namespace deltasane::gated_delta
