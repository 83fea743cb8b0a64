#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

class Table {
 public:
  Table(const Config& config, const VisitTensor& visit) : c(config), visit_(visit) {}

  void all() {
    visit_("embedding.weight", {c.vocabulary, c.channels}, TensorForm::matrix);
    for (layer_ = 0; layer_ < c.layers(); ++layer_) {
      const Mixer mixer = c.mixers[size_t(layer_)];
      const bool after = c.norms_after && mixer == Mixer::attention;
      vector(after ? "mixer_output_norm.weight" : "mixer_norm.weight", c.channels);
      mixer == Mixer::recurrent ? recurrent() : mixer == Mixer::attention ? attention() : latent();
      vector(after ? "ffn_output_norm.weight" : "ffn_norm.weight", c.channels);
      c.experts[size_t(layer_)] ? experts() : dense();
    }
    visit_("norm.weight", {c.channels}, TensorForm::vector);
    if (!c.tied) visit_("head.weight", {c.vocabulary, c.channels}, TensorForm::matrix);
  }

 private:
  void vector(std::string_view name, int64_t size) {
    visit_(layer_tensor(layer_, name), {size}, TensorForm::vector);
  }
  void matrix(std::string_view name, int64_t out, int64_t in) {
    visit_(layer_tensor(layer_, name), {out, in}, TensorForm::matrix);
  }
  void matrices(std::string_view name, int64_t count, int64_t out, int64_t in) {
    visit_(layer_tensor(layer_, name), {count, out, in}, TensorForm::matrices);
  }

  void recurrent() {
    matrix("mixer.qkv.weight", c.mixed_channels(), c.channels);
    if (c.taps)
      visit_(layer_tensor(layer_, "mixer.convolution.weight"), {c.mixed_channels(), c.taps},
             TensorForm::vector);
    if (c.beta_scale != 0) matrix("mixer.beta.weight", c.value_heads, c.channels);
    if (c.rule == kernel::Rule::kda) {
      matrix("mixer.decay_down.weight", c.decay_rank, c.channels);
      matrix("mixer.decay_up.weight", c.decays(), c.decay_rank);
    } else if (c.decays()) {
      matrix("mixer.decay.weight", c.decays(), c.channels);
    }
    if (c.decays()) vector("mixer.decay_log_rate", c.value_heads);
    if (c.decays()) vector("mixer.decay_bias", c.decays());
    if (c.gate != OutputGate::none && c.gate_rank) {
      matrix("mixer.gate_down.weight", c.gate_rank, c.channels);
      matrix("mixer.gate_up.weight", c.value_channels(), c.gate_rank);
    } else if (c.gate != OutputGate::none) {
      matrix("mixer.gate.weight", c.value_channels(), c.channels);
    }
    if (c.gate_bias) vector("mixer.gate_bias", c.value_channels());
    vector("mixer.output_norm.weight", c.value_size);
    matrix("mixer.output.weight", c.channels, c.value_channels());
    if (c.sane)
      visit_(layer_tensor(layer_, "mixer.w_tau"), {c.channels, c.value_heads}, TensorForm::vector);
  }

  void attention() {
    const int64_t queries = c.heads * c.head_size, keys = c.kv_heads * c.head_size;
    matrix("mixer.q.weight", queries, c.channels);
    if (c.attention_gate) matrix("mixer.gate.weight", queries, c.channels);
    matrix("mixer.k.weight", keys, c.channels);
    matrix("mixer.v.weight", keys, c.channels);
    if (c.qk_norm != QkNorm::none) {
      const bool row = c.qk_norm == QkNorm::row;
      vector("mixer.q_norm.weight", row ? queries : c.head_size);
      vector("mixer.k_norm.weight", row ? keys : c.head_size);
    }
    matrix("mixer.output.weight", c.channels, queries);
  }

  void latent() {
    matrix("mixer.q.weight", c.heads * (c.latent_key_size + c.shared_key_size), c.channels);
    matrix("mixer.kv_down.weight", c.latent_size + c.shared_key_size, c.channels);
    vector("mixer.kv_norm.weight", c.latent_size);
    matrices("mixer.k_up.weight", c.heads, c.latent_size, c.latent_key_size);
    matrices("mixer.v_up.weight", c.heads, c.latent_value_size, c.latent_size);
    matrix("mixer.output.weight", c.channels, c.heads * c.latent_value_size);
  }

  void dense() { network("ffn.", c.feed_forward); }

  void network(const std::string& name, int64_t width) {
    matrix(name + "gate.weight", width, c.channels);
    matrix(name + "up.weight", width, c.channels);
    matrix(name + "down.weight", c.channels, width);
  }

  void experts() {
    matrix("ffn.router.weight", c.expert_count, c.channels);
    if (c.sigmoid_router) vector("ffn.router_bias", c.expert_count);
    matrices("ffn.experts.gate.weight", c.expert_count, c.expert_size, c.channels);
    matrices("ffn.experts.up.weight", c.expert_count, c.expert_size, c.channels);
    matrices("ffn.experts.down.weight", c.expert_count, c.channels, c.expert_size);
    if (c.shared_expert_size) network("ffn.shared.", c.shared_expert_size);
    if (c.shared_expert_size && c.shared_expert_gate) matrix("ffn.shared_gate.weight", 1, c.channels);
  }

  const Config& c;
  const VisitTensor& visit_;
  int64_t layer_ = 0;
};

}  // namespace

std::string layer_tensor(int64_t layer, std::string_view name) {
  return cat("layers.", layer, ".", name);
}

void each_tensor(const Config& config, const VisitTensor& visit) { Table(config, visit).all(); }

}  // namespace deltasane::gated_delta
