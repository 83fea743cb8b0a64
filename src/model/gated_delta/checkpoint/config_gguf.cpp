#include "base/printable.h"
#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/settings.h"

namespace deltasane::gated_delta {
namespace {

using kernel::Rule;

bool has(const TensorFile& file, int64_t layer, std::string_view tensor) {
  return file.find(cat("blk.", layer, ".", tensor)) != nullptr;
}

void set_layers(Config& c, Settings& s, const TensorFile& file, std::string_view convolution,
                Mixer otherwise) {
  const int64_t layers = s.integer("block_count") - s.integer("nextn_predict_layers", 0);
  if (layers < 1 || layers > 10'000)
    fail(Fault::file, s.where("block_count"), ": expected 1 to 10000 layers, found ", layers);
  for (int64_t i = 0; i < layers; ++i) {
    c.mixers.push_back(has(file, i, convolution) ? Mixer::recurrent : otherwise);
    c.experts.push_back(has(file, i, "ffn_gate_inp.weight"));
  }
}

void set_qwen(Config& c, Settings& s) {
  c.rule = Rule::gated_deltanet;
  c.key_heads = s.integer("ssm.group_count");
  c.value_heads = s.integer("ssm.time_step_rank");
  c.key_size = c.value_size = s.integer("ssm.state_size");
  s.expect("ssm.inner_size", {cat(c.value_channels())});
  c.gate = OutputGate::silu;
  c.output_norm_eps = c.norm_eps;
  c.kv_heads = s.integer("attention.head_count_kv");
  c.head_size = s.integer("attention.key_length");
  s.expect("attention.value_length", {cat(c.head_size)});
  c.rotary = s.integer("rope.dimension_count");
  c.theta = s.real("rope.freq_base");
  c.attention_gate = true;
  c.qk_norm = QkNorm::head;
  c.feed_forward = s.integer("feed_forward_length", 0);
  c.expert_count = s.integer("expert_count", 0);
  c.experts_used = s.integer("expert_used_count", 0);
  c.expert_size = s.integer("expert_feed_forward_length", 0);
  c.shared_expert_size = s.integer("expert_shared_feed_forward_length", 0);
  c.shared_expert_gate = c.shared_expert_size > 0;
  s.ignore({"full_attention_interval", "rope.dimension_sections"});
}

void set_kimi(Config& c, Settings& s) {
  c.rule = Rule::kda;
  c.key_heads = c.value_heads = c.heads;
  c.key_size = c.value_size = c.decay_rank = c.gate_rank = s.integer("kda.head_dim");
  c.gate = OutputGate::sigmoid;
  c.output_norm_eps = c.norm_eps;
  c.latent_size = s.integer("attention.kv_lora_rank");
  c.shared_key_size = s.integer("rope.dimension_count");
  c.latent_key_size = s.integer("attention.key_length_mla") - c.shared_key_size;
  c.latent_value_size = s.integer("attention.value_length_mla");
  c.latent_norm_eps = 1e-6;  // as transformers, from whose file these are made
  c.feed_forward = s.integer("feed_forward_length");
  c.expert_count = s.integer("expert_count");
  c.experts_used = s.integer("expert_used_count");
  c.expert_size = s.integer("expert_feed_forward_length");
  c.shared_expert_size = c.expert_size * s.integer("expert_shared_count", 1);
  c.sigmoid_router = true;
  c.expert_scale = s.real("expert_weights_scale", 1.0);
  c.renormalize = s.truth("expert_weights_norm", true);
  s.expect("expert_gating_func", {"2"});
  s.expect("expert_group_count", {"1"});
  s.expect("expert_group_used_count", {"1"});
  s.ignore({"attention.head_count_kv", "attention.key_length", "attention.value_length",
            "leading_dense_block_count", "rope.freq_base"});
}

}  // namespace

bool is_gguf_architecture(std::string_view name) {
  return name == "qwen35" || name == "qwen35moe" || name == "qwen3next" || name == "kimi-linear";
}

Config gguf_config(const TensorFile& file) {
  const std::string& name = file.metadata().at("general.architecture");
  Settings s(file, name + ".");
  Config c;
  const bool kimi = name == "kimi-linear";
  c.model_type = kimi                  ? "kimi_linear"
                 : name == "qwen3next" ? "qwen3_next"
                 : name == "qwen35moe" ? "qwen3_5_moe"
                                       : "qwen3_5";
  set_layers(c, s, file, kimi ? "ssm_conv1d_q.weight" : "ssm_conv1d.weight",
             kimi ? Mixer::latent : Mixer::attention);
  c.channels = s.integer("embedding_length");
  c.norm_eps = s.real("attention.layer_norm_rms_epsilon");
  c.heads = s.integer("attention.head_count");
  c.taps = s.integer("ssm.conv_kernel");
  c.tied = file.find("output.weight") == nullptr;
  if (const StoredTensor* const rows = file.find("token_embd.weight"); rows && rows->shape.rank())
    c.vocabulary = rows->shape[0];
  kimi ? set_kimi(c, s) : set_qwen(c, s);
  s.ignore({"context_length", "nextn_predict_layers", "vocab_size"});
  s.refuse_others();
  return c;
}

}  // namespace deltasane::gated_delta
