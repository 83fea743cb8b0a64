// Folders that flash-linear-attention and transformers read.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/array_at.h"
#include "format/quantize/quantize.h"
#include "format/safetensors/safetensors.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/stored_layout.h"

namespace deltasane::gated_delta {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int64_t> layers_with(const Config& c, Mixer mixer, int64_t first) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < c.layers(); ++i)
    if (c.mixers[size_t(i)] == mixer) found.push_back(first + i);
  return found;
}

void add_fla(const Config& c, Json& config) {
  const bool gdn = c.model_type == "gated_deltanet", kda = c.model_type == "kda";
  config["architectures"] = {gdn   ? "GatedDeltaNetForCausalLM"
                             : kda ? "KDAForCausalLM"
                                   : "DeltaNetForCausalLM"};
  config["norm_eps"] = c.norm_eps, config["hidden_act"] = "swish";
  config["intermediate_size"] = c.feed_forward;
  config["use_short_conv"] = c.taps > 0;
  if (c.taps) config["conv_size"] = c.taps;
  config["allow_neg_eigval"] = c.beta_scale == 2;
  config["num_heads"] = c.key_heads;
  if (gdn || kda) {
    config["num_v_heads"] = c.value_heads, config["head_dim"] = c.key_size;
    config["expand_v"] = double(c.value_size) / double(c.key_size);
  } else {
    const double per_head = double(c.channels) / double(c.key_heads);
    config["expand_k"] = double(c.key_size) / per_head;
    config["expand_v"] = double(c.value_size) / per_head;
    config["use_beta"] = c.beta_scale != 0;
  }
  if (!kda) config["use_gate"] = c.gate != OutputGate::none;
  if (gdn && c.gate == OutputGate::sigmoid) config["output_gate_activation"] = "sigmoid";
  if (kda && c.decay_bound != 0) config["lower_bound"] = c.decay_bound;
  if (!c.has(Mixer::attention)) return;
  config["attn"] = {{"layers", layers_with(c, Mixer::attention, 0)},
                    {"num_heads", c.heads},
                    {"num_kv_heads", c.kv_heads},
                    {"qkv_bias", false},
                    {"rope_theta", c.theta}};
  if (c.window) config["attn"]["window_size"] = c.window;
}

// What Qwen's and OLMo's hybrids have alike.
void add_hybrid(const Config& c, Json& config) {
  config["rms_norm_eps"] = c.norm_eps, config["hidden_act"] = "silu";
  config["intermediate_size"] = c.feed_forward;
  config["attention_bias"] = false;
  config["num_attention_heads"] = c.heads, config["num_key_value_heads"] = c.kv_heads;
  config["linear_num_key_heads"] = c.key_heads;
  config["linear_num_value_heads"] = c.value_heads;
  config["linear_key_head_dim"] = c.key_size, config["linear_value_head_dim"] = c.value_size;
  config["linear_conv_kernel_dim"] = c.taps;
  for (const Mixer mixer : c.mixers)
    array_at(config, "layer_types")
        .push_back(mixer == Mixer::recurrent ? "linear_attention" : "full_attention");
}

void add_qwen(const Config& c, Json& config) {
  const bool next = c.model_type == "qwen3_next", moe = next || c.model_type == "qwen3_5_moe";
  config["architectures"] = {next  ? "Qwen3NextForCausalLM"
                             : moe ? "Qwen3_5MoeForCausalLM"
                                   : "Qwen3_5ForCausalLM"};
  if (!next) config["model_type"] = c.model_type + "_text";
  add_hybrid(c, config);
  config["head_dim"] = c.head_size;
  config["rope_parameters"] = {
      {"rope_type", "default"},
      {"rope_theta", c.theta},
      {"partial_rotary_factor", double(c.rotary) / double(c.head_size)}};
  if (!moe) return;
  config["num_experts"] = c.expert_count, config["num_experts_per_tok"] = c.experts_used;
  config["moe_intermediate_size"] = c.expert_size;
  config["shared_expert_intermediate_size"] = c.shared_expert_size;
  if (!next) return;
  config["decoder_sparse_step"] = 1, config["norm_topk_prob"] = c.renormalize;
  config["mlp_only_layers"] = Json::array();
  for (int64_t i = 0; i < c.layers(); ++i)
    if (!c.experts[size_t(i)]) array_at(config, "mlp_only_layers").push_back(i);
}

void add_olmo(const Config& c, Json& config) {
  config["architectures"] = {"OlmoHybridForCausalLM"};
  add_hybrid(c, config);
  config["linear_allow_neg_eigval"] = c.beta_scale == 2;
  config["rope_parameters"] = {{"rope_type", "default"},
                               {"rope_theta", c.rotary ? Json(c.theta) : Json(nullptr)}};
}

void add_kimi(const Config& c, Json& config) {
  config["architectures"] = {"KimiLinearForCausalLM"};
  config["rms_norm_eps"] = c.norm_eps, config["hidden_act"] = "silu";
  config["intermediate_size"] = c.feed_forward;
  config["num_attention_heads"] = config["num_key_value_heads"] = c.heads;
  config["kv_lora_rank"] = c.latent_size, config["q_lora_rank"] = nullptr;
  config["qk_nope_head_dim"] = c.latent_key_size;
  config["qk_rope_head_dim"] = c.shared_key_size, config["v_head_dim"] = c.latent_value_size;
  config["mla_use_nope"] = true;
  config["linear_attn_config"] = {{"kda_layers", layers_with(c, Mixer::recurrent, 1)},
                                  {"full_attn_layers", layers_with(c, Mixer::latent, 1)},
                                  {"head_dim", c.key_size},
                                  {"num_heads", c.key_heads},
                                  {"short_conv_kernel_size", c.taps}};
  config["num_experts"] = c.expert_count, config["num_experts_per_token"] = c.experts_used;
  config["moe_intermediate_size"] = c.expert_size;
  config["num_shared_experts"] = c.expert_size ? c.shared_expert_size / c.expert_size : 0;
  config["first_k_dense_replace"] =
      std::ranges::find(c.experts, true) - c.experts.begin();
  config["moe_renormalize"] = c.renormalize, config["moe_router_activation_func"] = "sigmoid";
  config["routed_scaling_factor"] = c.expert_scale;
  config["num_expert_group"] = 1, config["topk_group"] = 1;
}

Json config_of(const Config& c, StoredType type, std::optional<int32_t> end_of_document) {
  const Json end = end_of_document ? Json(*end_of_document) : Json(nullptr);
  Json config{{"architectures", nullptr},
              {"model_type", c.model_type},
              {"hidden_size", c.channels},
              {"num_hidden_layers", c.layers()},
              {"vocab_size", c.vocabulary},
              {"tie_word_embeddings", c.tied},
              {"bos_token_id", end},
              {"eos_token_id", end},
              {"pad_token_id", end},
              {"torch_dtype", type == StoredType::f32   ? "float32"
                              : type == StoredType::f16 ? "float16"
                                                        : "bfloat16"}};
  if (c.model_type == "olmo_hybrid")
    add_olmo(c, config);
  else if (c.model_type == "kimi_linear")
    add_kimi(c, config);
  else if (c.model_type.starts_with("qwen3_"))
    add_qwen(c, config);
  else
    add_fla(c, config);
  return config;
}

// Qwen3.5-MoE has no settings for these, unlike Qwen3-Next.
void require_stated(const Config& c, const TensorSource& source) {
  if (c.model_type != "qwen3_5_moe") return;
  const auto dense = std::ranges::find(c.experts, false);
  if (dense != c.experts.end())
    fail(Fault::usage, source.where(), ": layer ", dense - c.experts.begin(),
         ": expected experts, as transformers has in every layer of Qwen3.5-MoE, found a dense "
         "feed-forward layer");
  if (!c.renormalize)
    fail(Fault::usage, source.where(),
         ": renormalize: expected true, as transformers has it for Qwen3.5-MoE, found false");
}

// transformers' convolutions are (channel, 1, tap), and Kimi's A_log (1, 1, head, 1).
Shape library_shape(const Config& c, const StoredTensor& tensor) {
  const Shape& own = tensor.shape;
  if (tensor.name.ends_with("conv1d.weight")) return {own[0], 1, own[1]};
  if (c.model_type == "kimi_linear" && tensor.name.ends_with("A_log")) return {1, 1, own[0], 1};
  return own;
}

}  // namespace

std::string write_hugging_face(const fs::path& folder, const Config& config,
                               const TensorSource& source, StoredType type,
                               std::optional<int32_t> end_of_document,
                               const std::optional<SaneSettings>& sane) {
  if (!dtype_of(type))
    fail(Fault::usage, folder, ": expected f32, f16 or bf16 for safetensors, found ",
         name_of(type));
  require(config.sane == sane.has_value(), "a model with SANE's tensors has its settings");
  if (!is_hugging_face_type(config.model_type))
    fail(Fault::usage, source.where(), ": expected a kind of model that the libraries have, found ",
         config.model_type);
  require_stated(config, source);
  StoredLayout layout(config, source, map_hugging_face_names);
  std::vector<PlannedTensor> plan;
  for (const StoredTensor& tensor : layout.tensors()) {
    const bool matrix = tensor.shape.rank() > 1 && !tensor.name.ends_with("conv1d.weight") &&
                        !tensor.name.ends_with("w_tau");
    plan.push_back({tensor.name, matrix ? type : StoredType::f32, library_shape(config, tensor)});
  }
  deltasane::write_safetensors(folder / "model.safetensors", std::move(plan), {{"format", "pt"}},
                               [&](const PlannedTensor& tensor, const Sink& sink) {
                                 const Tensor<float> values = layout.make(tensor.name);
                                 std::vector<std::byte> bytes(tensor.bytes());
                                 quantize_from_float(tensor.type, values.span(), bytes,
                                                     tensor.name);
                                 sink(bytes);
                               });
  Json described = config_of(config, type, end_of_document);
  if (sane) described["sane"] = {{"alpha", sane->alpha}, {"chunk", sane->chunk}};
  replace_file(folder / "config.json", described.dump(2) + "\n");
  const bool fla = !config.model_type.starts_with("qwen3_") &&
                   config.model_type != "olmo_hybrid" && config.model_type != "kimi_linear";
  return cat("With transformers", fla ? " and flash-linear-attention" : "",
             ":\n\n```python\n", fla ? "import fla\n" : "",
             "from transformers import AutoModelForCausalLM\n\n",
             "model = AutoModelForCausalLM.from_pretrained(\"PATH\")\n```\n",
             sane ? "\nThe libraries do not know SANE: they leave its tensors out.\n" : "");
}

std::string Checkpoint::write_hugging_face(const fs::path& folder, StoredType type,
                                           std::optional<int32_t> end_of_document) const {
  return gated_delta::write_hugging_face(folder, config_, *this, type, end_of_document, sane_);
}

}  // namespace deltasane::gated_delta
