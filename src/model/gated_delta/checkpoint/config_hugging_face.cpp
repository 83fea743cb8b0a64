#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/settings.h"

namespace deltasane::gated_delta {
namespace {

using kernel::Rule;

constexpr std::string_view linear = "linear_attention", full = "full_attention";
constexpr double default_theta = 10000;  // of rotary positions

// What all configs may have and no result depends on.
void ignore_without_effect(Settings& s) {
  s.ignore({"architectures", "attention_dropout", "attn_mode", "auto_map.*", "bos_token_id",
            "chunk_size_feed_forward", "dtype", "eos_token_id", "fuse_*", "id2label.*",
            "initializer_range", "is_encoder_decoder", "label2id.*", "mamba_ssm_dtype",
            "max_position_embeddings", "model_max_length", "model_type", "mtp_*", "_name_or_path",
            "num_nextn_predict_layers", "output_attentions", "output_hidden_states",
            "output_router_logits", "pad_token_id", "return_dict", "router_aux_loss_coef", "sane.*",
            "torch_dtype", "transformers_version", "use_cache", "use_l2warp"});
}

void expect_plain_rope(Settings& s, std::string_view in) {
  s.expect(cat(in, "rope_type"), {"default"});
  s.expect(cat(in, "type"), {"default"});
  s.ignore({cat(in, "mrope_section"), cat(in, "mrope_interleaved")});
}

void set_layers(Config& c, Settings& s, int64_t layers, int64_t interval) {
  if (layers < 1 || layers > 10'000)
    fail(Fault::file, s.where("num_hidden_layers"), ": expected 1 to 10000, found ", layers);
  const std::vector<std::string> types = s.list("layer_types");
  if (s.has_list("layer_types") && int64_t(types.size()) != layers)
    fail(Fault::file, s.where("layer_types"), ": expected ", layers, " entries, found ",
         types.size());
  for (int64_t i = 0; i < layers; ++i) {
    bool is_full = (i + 1) % interval == 0;
    if (!types.empty()) {
      const std::string& type = types[size_t(i)];
      if (type != linear && type != full)
        fail(Fault::file, s.where("layer_types"), ": expected ", linear, " or ", full, ", found ",
             printable(type));
      is_full = type == full;
    }
    c.mixers.push_back(is_full ? Mixer::attention : Mixer::recurrent);
  }
  c.experts.assign(size_t(layers), false);
}

void set_convolution(Config& c, Settings& s) {
  c.taps = s.integer("conv_size", 4);
  s.expect("conv_bias", {"false"});
  if (!s.truth("use_short_conv", true)) c.taps = 0;
}

// flash-linear-attention's layers of attention: one description.
void set_fla_attention(Config& c, Settings& s) {
  const std::vector<int64_t> layers = s.integers("attn.layers");
  if (layers.empty()) return;
  c.heads = s.integer("attn.num_heads");
  c.kv_heads = s.integer("attn.num_kv_heads", c.heads);
  if (c.heads < 1 || c.channels % c.heads != 0)
    fail(Fault::file, s.where("attn.num_heads"), ": expected a divisor of ", c.channels,
         ", found ", c.heads);
  c.head_size = c.rotary = c.channels / c.heads;
  c.theta = s.real("attn.rope_theta", default_theta);
  c.window = s.integer("attn.window_size", 0);
  if (s.has("attn.window_size") && c.window < 1)
    fail(Fault::file, s.where("attn.window_size"), ": expected at least 1, found ", c.window);
  s.expect("attn.qkv_bias", {"false"});
  s.expect("attn.qk_norm", {"false"});
  for (const int64_t layer : layers) {
    if (layer < 0 || layer >= c.layers())
      fail(Fault::file, s.where("attn.layers"), ": expected 0 to ", c.layers() - 1, ", found ",
           layer);
    c.mixers[size_t(layer)] = Mixer::attention;
  }
}

// A whole number that `share` of `of` is.
int64_t share_of(double of, double share, Settings& s, std::string_view name) {
  const double exact = of * share;
  const auto whole = int64_t(std::llround(exact));
  if (whole < 1 || std::abs(exact - double(whole)) > 1e-6)
    fail(Fault::file, s.where(name), ": expected a share that gives a whole number, found ", share,
         " of ", of);
  return whole;
}

Config fla_config(Settings& s, const std::string& type) {
  Config c;
  const bool gdn = type == "gated_deltanet", kda = type == "kda";
  c.rule = kda ? Rule::kda : gdn ? Rule::gated_deltanet : Rule::deltanet;
  c.channels = s.integer("hidden_size", 2048);
  c.vocabulary = s.integer("vocab_size", 32000);
  c.norm_eps = c.output_norm_eps = s.real("norm_eps", 1e-6);
  c.tied = s.truth("tie_word_embeddings", false);
  const int64_t layers = s.integer("num_hidden_layers", gdn ? 21 : 24);
  set_layers(c, s, layers, layers + 1);
  s.expect("hidden_act", {"swish", "silu"});
  const int64_t ratio = s.integer("hidden_ratio", 4);
  c.feed_forward = s.integer("intermediate_size", 0);
  if (c.feed_forward == 0) {
    const auto wanted = int64_t(double(c.channels * ratio) * 2 / 3);
    c.feed_forward = (wanted + 255) / 256 * 256;
  }
  set_convolution(c, s);
  c.beta_scale = s.truth("allow_neg_eigval", false) ? 2 : 1;
  if (!gdn && !kda) {
    c.key_heads = c.value_heads = s.integer("num_heads", 16);
    const double per_head = double(c.channels) / double(std::max<int64_t>(1, c.key_heads));
    c.key_size = share_of(per_head, s.real("expand_k", 1.0), s, "expand_k");
    c.value_size = share_of(per_head, s.real("expand_v", 1.0), s, "expand_v");
    if (!s.truth("use_beta", true)) {
      s.expect("allow_neg_eigval", {"false"});  // beta would be 2
      c.beta_scale = 0;
    }
    c.gate = s.truth("use_gate", false) ? OutputGate::silu : OutputGate::none;
    s.expect("qk_activation", {"silu"});
    s.expect("qk_norm", {"l2"});
    s.expect("use_output_norm", {"true"});
  } else {
    c.key_heads = s.integer("num_heads", gdn ? 6 : 16);
    c.value_heads = s.integer("num_v_heads", c.key_heads);
    c.key_size = s.integer("head_dim", gdn ? 256 : 128);
    c.value_size = share_of(double(c.key_size), s.real("expand_v", gdn ? 2.0 : 1.0), s, "expand_v");
  }
  if (gdn) {
    const std::string activation = s.text("output_gate_activation", "swish");
    s.expect("output_gate_activation", {"swish", "silu", "sigmoid"});
    if (s.truth("use_gate", true))
      c.gate = activation == "sigmoid" ? OutputGate::sigmoid : OutputGate::silu;
  }
  if (kda) {
    c.gate = OutputGate::sigmoid;
    c.decay_rank = c.gate_rank = c.value_size;
    c.gate_bias = true;
    c.decay_bound = s.real("lower_bound", 0.0);
    if (s.has("lower_bound") && !(c.decay_bound < 0))
      fail(Fault::file, s.where("lower_bound"), ": expected a number below 0, found ",
           c.decay_bound);
    s.ignore({"safe_gate"});  // how the same is computed
  }
  set_fla_attention(c, s);
  s.expect("attnres_block_size", {});
  return c;
}

// The recurrence of Qwen's and OLMo's hybrids.
void set_linear_heads(Config& c, Settings& s, int64_t key_heads, int64_t value_heads,
                      int64_t key_size, int64_t value_size) {
  c.rule = Rule::gated_deltanet;
  c.key_heads = s.integer("linear_num_key_heads", key_heads);
  c.value_heads = s.integer("linear_num_value_heads", value_heads);
  c.key_size = s.integer("linear_key_head_dim", key_size);
  c.value_size = s.integer("linear_value_head_dim", value_size);
  c.taps = s.integer("linear_conv_kernel_dim", 4);
  if (c.taps < 1)
    fail(Fault::file, s.where("linear_conv_kernel_dim"), ": expected at least 1, found ", c.taps);
  c.gate = OutputGate::silu;
}

void set_qwen_experts(Config& c, Settings& s, bool next) {
  c.expert_count = s.integer("num_experts", next ? 512 : 256);
  c.experts_used = s.integer("num_experts_per_tok", next ? 10 : 8);
  c.expert_size = s.integer("moe_intermediate_size", 512);
  c.shared_expert_size = s.integer("shared_expert_intermediate_size", 512);
  c.shared_expert_gate = true;
  if (!next) {  // Qwen3.5's layers all have experts, whose weights are always divided by their sum
    s.ignore({"norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"});
    c.experts.assign(size_t(c.layers()), true);
    return;
  }
  c.renormalize = s.truth("norm_topk_prob", true);
  const int64_t step = s.integer("decoder_sparse_step", 1);
  if (step < 1)
    fail(Fault::file, s.where("decoder_sparse_step"), ": expected at least 1, found ", step);
  for (int64_t i = 0; i < c.layers(); ++i) c.experts[size_t(i)] = (i + 1) % step == 0;
  for (const int64_t dense : s.integers("mlp_only_layers"))
    if (dense >= 0 && dense < c.layers()) c.experts[size_t(dense)] = false;
}

Config qwen_config(Settings& s, const std::string& type) {
  Config c;
  const bool next = type == "qwen3_next", moe = next || type.starts_with("qwen3_5_moe");
  c.vocabulary = s.integer("vocab_size", next ? 151936 : 248320);
  c.channels = s.integer("hidden_size", moe ? 2048 : 4096);
  c.norm_eps = c.output_norm_eps = s.real("rms_norm_eps", 1e-6);
  c.tied = s.truth("tie_word_embeddings", false);
  const int64_t interval = s.integer("full_attention_interval", 4);
  if (interval < 1)
    fail(Fault::file, s.where("full_attention_interval"), ": expected at least 1, found ",
         interval);
  set_layers(c, s, s.integer("num_hidden_layers", next ? 48 : moe ? 40 : 32), interval);
  set_linear_heads(c, s, 16, 32, 128, 128);
  c.heads = s.integer("num_attention_heads", 16);
  c.kv_heads = s.integer("num_key_value_heads", moe ? 2 : 4);
  c.head_size = s.integer("head_dim", 256);
  const double share = s.real("rope_parameters.partial_rotary_factor",
                              s.real("partial_rotary_factor", 0.25));
  c.rotary = int64_t(double(c.head_size) * share);
  c.theta = s.real("rope_parameters.rope_theta", s.real("rope_theta", default_theta));
  expect_plain_rope(s, "rope_parameters.");
  expect_plain_rope(s, "rope_scaling.");
  c.attention_gate = true;
  c.qk_norm = QkNorm::head;
  c.feed_forward = s.integer("intermediate_size", moe ? 5632 : 12288);
  if (moe) set_qwen_experts(c, s, next);
  s.expect("attention_bias", {"false"});
  s.expect("attn_output_gate", {"true"});
  s.expect("hidden_act", {"silu"});
  s.expect("use_sliding_window", {"false"});
  return c;
}

Config olmo_config(Settings& s) {
  Config c;
  c.vocabulary = s.integer("vocab_size", 100352);
  c.channels = s.integer("hidden_size", 3840);
  c.norm_eps = s.real("rms_norm_eps", 1e-6);
  c.output_norm_eps = 1e-5;  // whatever rms_norm_eps is
  c.tied = s.truth("tie_word_embeddings", false);
  set_layers(c, s, s.integer("num_hidden_layers", 32), 4);
  c.heads = s.integer("num_attention_heads", 30);
  if (c.heads < 1 || c.channels % c.heads != 0)
    fail(Fault::file, s.where("num_attention_heads"), ": expected a divisor of ", c.channels,
         ", found ", c.heads);
  c.kv_heads = s.integer("num_key_value_heads", c.heads);
  c.head_size = c.channels / c.heads;
  const auto key_size = int64_t(0.75 * double(c.channels) / double(c.heads));
  set_linear_heads(c, s, c.heads, c.heads, key_size, 2 * key_size);
  c.beta_scale = s.truth("linear_allow_neg_eigval", true) ? 2 : 1;
  // Without rotary positions where theta is null, and not where there is none.
  const bool has_rope = !s.is_null("rope_parameters.rope_theta") && !s.is_null("rope_theta");
  c.theta = s.real("rope_parameters.rope_theta", s.real("rope_theta", has_rope ? default_theta : 0));
  if (c.theta != 0) c.rotary = c.head_size;
  expect_plain_rope(s, "rope_parameters.");
  expect_plain_rope(s, "rope_scaling.");
  c.qk_norm = QkNorm::row;
  c.norms_after = true;
  c.feed_forward = s.integer("intermediate_size", 11008);
  s.expect("attention_bias", {"false"});
  s.expect("hidden_act", {"silu"});
  s.expect("linear_use_gate", {"true"});
  s.ignore({"linear_a_log_*", "linear_dt_*"});  // of the initialisation
  return c;
}

void set_kimi_layers(Config& c, Settings& s, int64_t layers) {
  constexpr std::string_view recurrent_list = "linear_attn_config.kda_layers",
                             full_list = "linear_attn_config.full_attn_layers";
  if (s.has_list("layer_types")) {
    set_layers(c, s, layers, 4);
    s.ignore({recurrent_list, full_list});
  } else {
    set_layers(c, s, layers, layers + 1);
    std::vector<int> named(size_t(layers), 0);  // how often
    for (const std::string_view list : {recurrent_list, full_list})
      for (const int64_t layer : s.integers(list)) {
        if (layer < 1 || layer > layers)  // counted from 1
          fail(Fault::file, s.where(list), ": expected 1 to ", layers, ", found ", layer);
        ++named[size_t(layer - 1)];
        if (list == full_list) c.mixers[size_t(layer - 1)] = Mixer::attention;
      }
    const auto wrong = std::ranges::find_if(named, [](int times) { return times != 1; });
    if (wrong != named.end())
      fail(Fault::file, s.where(recurrent_list), " and full_attn_layers: expected layer ",
           wrong - named.begin() + 1, " in one of both, found it ", *wrong, " times");
  }
  std::ranges::replace(c.mixers, Mixer::attention, Mixer::latent);
}

// transformers lists the kind of each layer, Kimi's own files say how many are dense.
void set_kimi_experts(Config& c, Settings& s) {
  const int64_t dense = s.integer("first_k_dense_replace", 1);
  const std::vector<std::string> types = s.list("mlp_layer_types");
  if (s.has_list("mlp_layer_types") && int64_t(types.size()) != c.layers())
    fail(Fault::file, s.where("mlp_layer_types"), ": expected ", c.layers(), " entries, found ",
         types.size());
  for (int64_t i = 0; i < c.layers(); ++i) {
    const std::string type = types.empty() ? (i < dense ? "dense" : "sparse") : types[size_t(i)];
    if (type != "dense" && type != "sparse")
      fail(Fault::file, s.where("mlp_layer_types"), ": expected dense or sparse, found ",
           printable(type));
    c.experts[size_t(i)] = type == "sparse";
  }
}

Config kimi_config(Settings& s) {
  Config c;
  c.vocabulary = s.integer("vocab_size", 163840);
  c.channels = s.integer("hidden_size", 2304);
  c.norm_eps = c.output_norm_eps = s.real("rms_norm_eps", 1e-5);
  c.latent_norm_eps = 1e-6;
  c.tied = s.truth("tie_word_embeddings", false);
  set_kimi_layers(c, s, s.integer("num_hidden_layers", 27));
  c.heads = s.integer("num_attention_heads", 32);
  s.expect("num_key_value_heads", {cat(c.heads)});
  c.rule = Rule::kda;
  c.key_heads = c.value_heads = s.integer("linear_attn_config.num_heads",
                                          s.integer("linear_num_heads", c.heads));
  c.key_size = c.value_size =
      s.integer("linear_attn_config.head_dim", s.integer("linear_head_dim", 128));
  c.taps = s.integer("linear_attn_config.short_conv_kernel_size",
                     s.integer("linear_conv_kernel_dim", 4));
  c.decay_rank = c.gate_rank = c.key_size;
  c.gate = OutputGate::sigmoid;
  c.latent_size = s.integer("kv_lora_rank", 512);
  c.shared_key_size = s.integer("qk_rope_head_dim", 64);
  c.latent_key_size = s.integer("qk_nope_head_dim", 128);
  c.latent_value_size = s.integer("v_head_dim", 128);
  s.expect("q_lora_rank", {});
  s.expect("mla_use_nope", {"true"});
  c.feed_forward = s.integer("intermediate_size", 9216);
  c.expert_count = s.integer("num_experts", 256);
  c.experts_used = s.integer("num_experts_per_token", s.integer("num_experts_per_tok", 8));
  c.expert_size = s.integer("moe_intermediate_size", 1024);
  c.shared_expert_size = c.expert_size * s.integer("num_shared_experts", 1);
  c.sigmoid_router = true;
  c.renormalize = s.truth("moe_renormalize", true);
  c.expert_scale = s.real("routed_scaling_factor", 2.446);
  set_kimi_experts(c, s);
  s.expect("attention_bias", {"false"});
  s.expect("moe_router_activation_func", {"sigmoid"});
  s.expect("moe_layer_freq", {"1"});
  s.expect("num_expert_group", {"1"});
  s.expect("n_group", {"1"});
  s.expect("topk_group", {"1"});
  s.expect("hidden_act", {"silu"});
  s.ignore({"head_dim", "pretraining_tp", "qk_head_dim", "rope_theta", "rope_scaling*",
            "rope_parameters.*", "use_grouped_topk"});
  return c;
}

}  // namespace

bool is_hugging_face_type(std::string_view type) {
  for (const std::string_view one :
       {"delta_net", "gated_deltanet", "kda", "qwen3_5", "qwen3_5_text", "qwen3_5_moe",
        "qwen3_5_moe_text", "qwen3_next", "olmo_hybrid", "kimi_linear"})
    if (type == one) return true;
  return false;
}

Config hugging_face_config(const TensorFile& file) {
  const bool nested = file.metadata().contains("config.text_config.model_type");
  Settings s(file, nested ? "config.text_config." : "config.");
  std::string type = s.text("model_type", "");
  Config c = type == "olmo_hybrid"        ? olmo_config(s)
             : type == "kimi_linear"      ? kimi_config(s)
             : type.starts_with("qwen3_") ? qwen_config(s, type)
                                          : fla_config(s, type);
  if (type.ends_with("_text")) type.resize(type.size() - 5);
  c.model_type = type;
  ignore_without_effect(s);
  s.refuse_others();
  if (nested) {  // around the text model: vision, and how they meet
    Settings around(file, "config.");
    c.tied = around.truth("tie_word_embeddings", c.tied);
    around.ignore({"text_config.*", "vision_config.*", "image_token_id", "video_token_id",
                   "vision_end_token_id", "vision_start_token_id"});
    ignore_without_effect(around);
    around.refuse_others();
  }
  if (file.find(head_name)) c.tied = false;  // a head that is there is used, whatever the config says
  return c;
}

}  // namespace deltasane::gated_delta
