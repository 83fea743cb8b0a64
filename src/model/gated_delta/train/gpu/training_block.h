// The steps of block.h and block_backward.h over all rows of a batch on a GPU, with activations kept.
// Real: float or bf16.
//
// Padding is in front of a sequence's tokens, or behind the last one that is learned. In front, h is 0:
// then q, k and v are 0 too, and the state stays 0.
#pragma once

#include "model/gated_delta/block.h"
#include "model/gated_delta/train/gpu/buffers.h"
#include "model/gated_delta/train/slots.h"

namespace deltasane::gated_delta::gpu {

template <class Real>
struct GpuPass : GpuTrainingPass<Real> {
  const Config& config;
  const kernel::cuda::RaggedRows& ragged;
  kernel::cuda::DeltaRuleScratch& rule_scratch;
  const float* ones;  // (C): the one tap of a model without a convolution
};

template <class Real>
class GpuTrainingBlock {
 public:
  // x: the layer's input, (rows, C).
  GpuTrainingBlock(const GpuPass<Real>& pass, const LayerSlots& slots, const float* x,
                   const LayerBuffers<Real>& act, const SharedBuffers<Real>& shared)
      : p_(pass), c(pass.config), l_(slots), x_(x), a(act), s(shared) {}

  // To x_out, (rows, C), filling `act`. Null: only what the backward pass needs.
  void forward(float* x_out);
  // dx: the gradient of x_out becomes that of x.
  void backward(float* dx);

  // The steps. Models with others than these are refused (unsupported.h).
  Mixer mixer() const { return l_.mixer; }
  bool has_experts() const { return false; }
  void norm_before_mixer() { norm_before(x_, l_.mixer_norm, p_.present, a.h); }
  void norm_before_ffn() { norm_before(a.x_ffn, l_.ffn_norm, nullptr, a.h_ffn); }
  void project_recurrent();
  void tau();
  void convolve();
  void decay_and_beta();
  void recurrence();
  void gated_output_norm();
  void add_mixer_output() {
    add_half(l_.output, a.mixed, x_, l_.mixer_norm, a.mixer_out, a.x_ffn);
  }
  void add_network();
  void project_attention();
  void normalize_queries_and_keys();
  void rotate() { turn(s.turns, a.query, a.key); }
  void append_to_cache() {}  // every sequence is whole
  void attend();
  void gate_attention();
  void project_latent() {}
  void append_latent() {}
  void attend_latent() {}
  void add_experts() {}

  void add_network_backward();
  void norm_before_ffn_backward() { norm_before_backward(a.x_ffn, l_.ffn_norm, nullptr); }
  void add_mixer_output_backward() {
    linear_backward<Real>(p_, l_.output, a.mixed, dhalf(l_.mixer_norm, a.mixer_out), s.dmixed);
  }
  void gated_output_norm_backward();
  void recurrence_backward();
  void decay_and_beta_backward();
  void convolve_backward();
  void project_recurrent_backward();
  void tau_backward();
  void norm_before_mixer_backward() { norm_before_backward(x_, l_.mixer_norm, p_.present); }
  void add_experts_backward() {}
  void gate_attention_backward();
  void attend_backward();
  void rotate_backward() { turn(s.turns_back, s.dquery, s.dkey); }
  void normalize_queries_and_keys_backward();
  void project_attention_backward();
  void attend_latent_backward() {}
  void project_latent_backward() {}

 private:
  // What a half reads: x normalised, or x, where norms come after; from dh onto dx.
  void norm_before(const float* x, Slot weight, const uint8_t* present, Real* h);
  void norm_before_backward(const float* x, Slot weight, const uint8_t* present);
  void as_it_is(const float* x, Real* to);  // rounded, where Real is
  // sum = stream + y W', or + norm(y W'), of which y W' is kept in `out`.
  void add_half(Slot matrix, const Real* y, const float* stream, Slot norm, float* out,
                float* sum);
  // From dx, the gradient of what the half's last matrix makes.
  const Real* dhalf(Slot norm, const float* out);
  // The gradient of what a half reads; where that is the residual stream, it is added to that one's.
  float* dh() const { return l_.norms_after ? dx_ : s.dh; }
  kernel::Store onto_dh() const {
    return l_.norms_after ? kernel::Store::add : kernel::Store::overwrite;
  }
  GateColumns gates() const { return GateColumns(c); }
  // The first of the matrices that make them, which lie one below the other.
  Slot gate_rows() const {
    require(!l_.beta || !l_.decay || l_.decay->offset == l_.beta->offset + l_.beta->elements(),
            "the decay's matrix follows beta's");
    return l_.beta ? l_.beta : l_.decay;
  }
  const float* taps_first();
  int64_t taps() const { return std::max<int64_t>(1, c.taps); }
  bool has_tiles() const { return gpu::has_tiles<Real>(c, p_.sane ? p_.sane->chunk : 16); }
  const float* tau_or_none() const { return p_.size.chunks ? a.tau : nullptr; }
  kernel::cuda::GatedRule by_tiles() const;
  kernel::cuda::TokenRule<Real> by_tokens() const;
  kernel::cuda::DecayAndBeta decay() const;
  kernel::cuda::WholeAttention<Real> attention() const;
  void turn(const double* frequencies, Real* queries, Real* keys);
  kernel::GateActivation gate_activation() const {
    return c.gate == OutputGate::silu ? kernel::GateActivation::silu
                                      : kernel::GateActivation::sigmoid;
  }

  const GpuPass<Real>& p_;
  const Config& c;
  const LayerSlots& l_;
  const float* x_;
  const LayerBuffers<Real>& a;
  const SharedBuffers<Real>& s;
  float *x_out_ = nullptr, *dx_ = nullptr;
};

}  // namespace deltasane::gated_delta::gpu
