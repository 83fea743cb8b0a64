// GGUF files as llama.cpp reads them: names and orders are those of names_gguf.cpp, read backwards.
#include <algorithm>

#include "format/quantize/fill.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/stored_layout.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

// Empty: llama.cpp has none.
std::string architecture_of(const Config& c) {
  if (c.model_type == "qwen3_next") return "qwen3next";
  if (c.model_type == "kimi_linear") return "kimi-linear";
  if (!c.model_type.starts_with("qwen3_5")) return "";
  return c.expert_count > 0 ? "qwen35moe" : "qwen35";
}

class Entries {
 public:
  explicit Entries(const Config& config)
      : c(config), architecture_(architecture_of(config)), kimi_(c.model_type == "kimi_linear") {}

  std::vector<GgufEntry> all(const GgufRequest& request) {
    put_whole("general.architecture", architecture_);
    put_whole("general.file_type", gguf_file_type(request.types));
    put_whole("general.quantization_version", uint32_t{2});
    for (const auto& [key, value] : request.metadata)
      if (key == "general.name" || key == "general.type" || key == "general.size_label")
        put_whole(key, value);
    number("block_count", c.layers());
    number("context_length", 262144);
    number("embedding_length", c.channels);
    if (c.feed_forward > 0) number("feed_forward_length", c.feed_forward);
    number("attention.head_count", c.heads);
    put("attention.layer_norm_rms_epsilon", float(c.norm_eps));
    number("ssm.conv_kernel", c.taps);
    if (c.expert_count > 0) {
      number("expert_count", c.expert_count);
      number("expert_used_count", c.experts_used);
      number("expert_feed_forward_length", c.expert_size);
    }
    kimi_ ? kimi() : qwen();
    entries_.insert(entries_.end(), request.tokenizer.begin(), request.tokenizer.end());
    return std::move(entries_);
  }

 private:
  void put_whole(const std::string& key, GgufValue value) {
    entries_.push_back({key, std::move(value)});
  }
  void put(const std::string& key, GgufValue value) {
    put_whole(cat(architecture_, ".", key), std::move(value));
  }
  void number(const std::string& key, int64_t value) { put(key, uint32_t(value)); }

  void qwen() {
    number("attention.head_count_kv", c.kv_heads);
    number("attention.key_length", c.head_size);
    number("attention.value_length", c.head_size);
    number("rope.dimension_count", c.rotary);
    put("rope.freq_base", float(c.theta));
    // How pairs of channels are divided between three positions, which are one for text.
    const auto pairs = int32_t(c.rotary / 2);
    if (c.model_type != "qwen3_next")
      put("rope.dimension_sections",
          std::vector<int32_t>{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
    number("ssm.state_size", c.value_size);
    number("ssm.group_count", c.key_heads);
    number("ssm.time_step_rank", c.value_heads);
    number("ssm.inner_size", c.value_channels());
    const auto first = std::ranges::find(c.mixers, Mixer::attention);
    number("full_attention_interval", first - c.mixers.begin() + 1);
    if (c.shared_expert_size > 0)
      number("expert_shared_feed_forward_length", c.shared_expert_size);
  }

  void kimi() {
    std::vector<int32_t> heads;
    for (const Mixer mixer : c.mixers) heads.push_back(mixer == Mixer::recurrent ? 0 : 1);
    put("attention.head_count_kv", std::move(heads));
    number("kda.head_dim", c.key_size);
    number("vocab_size", c.vocabulary);
    put("rope.freq_base", 10000.0f);
    number("rope.dimension_count", c.shared_key_size);
    number("attention.kv_lora_rank", c.latent_size);
    number("attention.key_length", c.latent_size + c.shared_key_size);
    number("attention.value_length", c.latent_value_size);
    number("attention.key_length_mla", c.latent_key_size + c.shared_key_size);
    number("attention.value_length_mla", c.latent_value_size);
    number("expert_group_count", 1);
    number("expert_group_used_count", 1);
    number("expert_gating_func", 2);
    number("expert_shared_count", c.shared_expert_size / c.expert_size);
    put("expert_weights_scale", float(c.expert_scale));
    put("expert_weights_norm", c.renormalize);
    number("leading_dense_block_count", std::ranges::find(c.experts, true) - c.experts.begin());
  }

  const Config& c;
  const std::string architecture_;
  const bool kimi_;
  std::vector<GgufEntry> entries_;
};

// llama.cpp wants Kimi's convolutions as (1, channel, 1, tap), and its rates of decay as (1, 1, head, 1).
Shape gguf_shape(const Config& c, const StoredTensor& tensor) {
  if (c.model_type != "kimi_linear") return tensor.shape;
  if (tensor.name.find("ssm_conv1d_") != std::string::npos)
    return {1, tensor.shape[0], 1, tensor.shape[1]};
  if (tensor.name.ends_with("ssm_a")) return {1, 1, tensor.shape[0], 1};
  return tensor.shape;
}

bool has(const std::string& name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) {
    return name.find(part) != std::string::npos;
  });
}

StoredType type_of(const Config& c, const StoredTensor& tensor, const MatrixTypes& types) {
  const std::string& name = tensor.name;
  if (tensor.shape.rank() == 1 || has(name, {"ssm_conv1d", "ffn_gate_inp"})) return StoredType::f32;
  // Small and sensitive.
  if (has(name, {"ssm_alpha", "ssm_beta", "ssm_ba", "ssm_f_", "ssm_g_"}))
    return dtype_of(types.most) ? types.most : StoredType::f16;
  int64_t layer = 0;
  if (name.starts_with("blk.")) layer = std::stoll(name.substr(4));
  const bool value = has(name, {"attn_v.", "ffn_down"}) && sensitive_layer(layer, c.layers());
  const bool output = name == (c.tied ? "token_embd.weight" : "output.weight");
  return type_of_rows(value || output ? types.sensitive : types.most,
                      tensor.shape[tensor.shape.rank() - 1]);
}

// Fails, naming the setting, where a reader of these keys and tensors would find another model: GGUF
// leaves out what its architectures have in common.
void expect_readable(const fs::path& path, const Config& config,
                     const std::vector<GgufEntry>& entries, const std::vector<PlannedTensor>& plan) {
  TensorFile file("gguf", path.string());
  for (const GgufEntry& entry : entries)
    std::visit(
        [&]<class Value>(const Value& value) {
          if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>)
            file.metadata()[entry.key] = cat(value);
          else
            file.metadata()[entry.key] = "[array]";
        },
        entry.value);
  for (const PlannedTensor& planned : plan) {
    StoredTensor tensor;
    tensor.name = planned.name, tensor.shape = planned.shape;
    file.add(std::move(tensor));
  }
  const Metadata read = own_metadata(gguf_config(file), {}), wanted = own_metadata(config, {});
  for (const auto& [key, value] : wanted) {
    const auto found = read.find(key);
    const std::string states = found == read.end() ? "none" : found->second;
    if (states != value && !key.ends_with("model_type"))
      fail(Fault::usage, path, ": ", key, ": expected ", states, ", which GGUF takes for granted, found ",
           value, "; write .safetensors");
  }
}

}  // namespace

void write_gguf(const fs::path& path, const Config& config, const TensorSource& source,
                const TensorFile* gguf, const GgufRequest& request) {
  if (architecture_of(config).empty())
    fail(Fault::usage, path, ": expected .safetensors for ", title_of(config),
         ", which llama.cpp does not have");
  if (config.sane)
    fail(Fault::usage, source.where(), ": expected a model without SANE's w_tau for GGUF, which has ",
         "no place for it in this architecture, found one with it; convert it to .safetensors");
  if (request.importance)
    fail(Fault::usage, path, ": expected no importance of inputs for this architecture, found some");
  StoredLayout layout(config, source, map_gguf_names);
  // Of a file of the same layout: its bytes as they are.
  const auto stored = [&](const std::string& name) { return gguf ? gguf->find(name) : nullptr; };
  std::vector<PlannedTensor> plan;
  for (const StoredTensor& tensor : layout.tensors()) {
    StoredType type = type_of(config, tensor, request.types);
    if (const StoredTensor* const found = stored(tensor.name);
        found && request.keep == GgufRequest::Keep::stored_types)
      type = found->type;
    plan.push_back({tensor.name, type, gguf_shape(config, tensor)});
  }
  const std::vector<GgufEntry> entries = Entries(config).all(request);
  expect_readable(path, config, entries, plan);
  deltasane::write_gguf(
      path, entries, plan,
      [&](const PlannedTensor& tensor, const Sink& sink) {
        if (const StoredTensor* const found = stored(tensor.name);
            found && found->type == tensor.type && found->bytes.size() == tensor.bytes())
          return sink(found->bytes);
        fill_tensor(tensor, layout.make(tensor.name), sink);
      },
      request.progress);
}

void Checkpoint::write_gguf(const fs::path& path, const GgufRequest& request) const {
  const bool same = file_.metadata().contains("general.architecture");
  gated_delta::write_gguf(path, config_, *this, same ? &file_ : nullptr, request);
}

}  // namespace deltasane::gated_delta
