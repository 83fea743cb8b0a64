// What a model of the delta-rule family is made of, whatever file it comes from: layers whose mixer
// is a recurrence (DeltaNet, Gated DeltaNet or Kimi Delta Attention), attention or latent attention,
// each followed by a SwiGLU network or by a mixture of such.
//
// Sizes are those of docs/architectures.md, which has the equations of each model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/tensor_file.h"
#include "kernel/delta_rule/delta_rule.h"
#include "model/state/state_layout.h"

namespace deltasane::gated_delta {

enum class Mixer { recurrent, attention, latent };
enum class OutputGate { none, silu, sigmoid };
enum class QkNorm { none, head, row };  // of queries and keys: over a head, over all heads

struct Config {
  std::string model_type;  // as Hugging Face names it
  int64_t vocabulary = 0, channels = 0;
  double norm_eps = 0;
  bool tied = false;           // the embedding is the head
  std::vector<Mixer> mixers;   // of each layer
  std::vector<bool> experts;   // whether a layer has experts

  // Recurrence. Value head j uses the key head floor(j / (value_heads / key_heads)).
  kernel::Rule rule = kernel::Rule::gated_deltanet;
  int64_t key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;
  int64_t taps = 0;        // of the convolution; 0: none
  double beta_scale = 1;   // beta = beta_scale sigmoid(..); 0: beta = 1
  double decay_bound = 0;  // of log w, below 0; 0: none
  int64_t decay_rank = 0;  // of a channel's decay; 0: of a head's, or none
  OutputGate gate = OutputGate::none;
  int64_t gate_rank = 0;   // 0: one matrix
  bool gate_bias = false;
  double output_norm_eps = 0;

  // Attention.
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  int64_t rotary = 0;      // channels of a head that are rotated
  double theta = 0;
  bool attention_gate = false;
  QkNorm qk_norm = QkNorm::none;
  bool norms_after = false;  // attention layers have norms after their halves, and none before
  int64_t window = 0;        // tokens that one sees; 0: all
  int64_t kept = 0;          // of the first tokens, beside a window

  // Latent attention.
  int64_t latent_size = 0, shared_key_size = 0;  // of a cached row
  int64_t latent_key_size = 0, latent_value_size = 0;
  double latent_norm_eps = 0;

  // Feed-forward network, and experts.
  int64_t feed_forward = 0;
  int64_t expert_count = 0, experts_used = 0, expert_size = 0, shared_expert_size = 0;
  bool sigmoid_router = false;  // with a bias that chooses; otherwise softmax
  bool renormalize = true;
  double expert_scale = 1;
  bool shared_expert_gate = false;

  bool sane = false;  // trained with SANE: has the weights of tau

  int64_t layers() const { return int64_t(mixers.size()); }
  int64_t key_channels() const { return key_heads * key_size; }
  int64_t value_channels() const { return value_heads * value_size; }
  int64_t mixed_channels() const { return 2 * key_channels() + value_channels(); }
  // Of the decays of one token; 0: there are none.
  int64_t decays() const {
    if (rule == kernel::Rule::deltanet) return 0;
    return rule == kernel::Rule::kda ? value_heads * key_size : value_heads;
  }
  bool has(Mixer mixer) const;
};

// Every setting with its name in metadata, to a visitor: visit(name, setting).
template <class SomeConfig, class Visit>
void each_setting(SomeConfig& c, const Visit& visit) {
  visit("model_type", c.model_type);
  visit("vocabulary", c.vocabulary), visit("channels", c.channels), visit("norm_eps", c.norm_eps);
  visit("tied", c.tied), visit("mixers", c.mixers), visit("experts", c.experts);
  visit("rule", c.rule), visit("key_heads", c.key_heads), visit("value_heads", c.value_heads);
  visit("key_size", c.key_size), visit("value_size", c.value_size), visit("taps", c.taps);
  visit("beta_scale", c.beta_scale), visit("decay_bound", c.decay_bound);
  visit("decay_rank", c.decay_rank), visit("gate", c.gate), visit("gate_rank", c.gate_rank);
  visit("gate_bias", c.gate_bias), visit("output_norm_eps", c.output_norm_eps);
  visit("heads", c.heads), visit("kv_heads", c.kv_heads), visit("head_size", c.head_size);
  visit("rotary", c.rotary), visit("theta", c.theta), visit("attention_gate", c.attention_gate);
  visit("qk_norm", c.qk_norm), visit("norms_after", c.norms_after), visit("window", c.window);
  visit("kept", c.kept);
  visit("latent_size", c.latent_size), visit("shared_key_size", c.shared_key_size);
  visit("latent_key_size", c.latent_key_size), visit("latent_value_size", c.latent_value_size);
  visit("latent_norm_eps", c.latent_norm_eps), visit("feed_forward", c.feed_forward);
  visit("expert_count", c.expert_count), visit("experts_used", c.experts_used);
  visit("expert_size", c.expert_size), visit("shared_expert_size", c.shared_expert_size);
  visit("sigmoid_router", c.sigmoid_router), visit("renormalize", c.renormalize);
  visit("expert_scale", c.expert_scale), visit("shared_expert_gate", c.shared_expert_gate);
}

// As metadata gated_delta.NAME, and back.
void store_settings(const Config& config, Metadata& metadata);
Config stored_settings(const Metadata& metadata, std::string_view where);

// Fails, naming the setting, where sizes do not fit each other.
void expect_consistent(const Config& config, std::string_view where);

// The name for people; model_type names one of ours, or it is returned as it is.
std::string title_of(const Config& config);

StateLayout state_layout(const Config& config);

// With a window of so many tokens, beside the first few, where one is given.
Config with_window(Config config, std::optional<int64_t> tokens);

}  // namespace deltasane::gated_delta
