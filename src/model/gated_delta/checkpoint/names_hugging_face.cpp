// Names of flash-linear-attention's models and of transformers': docs/architectures.md.
#include <array>

#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/tensor_map.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

class Names {
 public:
  explicit Names(TensorMap& map)
      : map_(map),
        c(map.config()),
        fla_(c.model_type == "delta_net" || c.model_type == "gated_deltanet" ||
             c.model_type == "kda"),
        qwen_(c.model_type.starts_with("qwen3_")),
        kimi_(c.model_type == "kimi_linear"),
        nested_(map.has("model.language_model.embed_tokens.weight")),
        norm_(qwen_ ? Change::add_one : Change::none) {}

  void all() {
    const std::string model = nested_ ? "model.language_model." : "model.";
    const Shape table{c.vocabulary, c.channels};
    map_.whole("embedding.weight", table,
               model + (fla_ ? "embeddings.weight" : "embed_tokens.weight"));
    for (layer_ = 0; layer_ < c.layers(); ++layer_) {
      here_ = cat(model, "layers.", layer_, ".");
      norms();
      switch (c.mixers[size_t(layer_)]) {
        case Mixer::recurrent:
          qwen_ ? fused_recurrent(here_ + "linear_attn.")
                : recurrent(here_ + (fla_ ? "attn." : kimi_ ? "self_attn." : "linear_attn."));
          break;
        case Mixer::attention:
          attention(here_ + (fla_ ? "attn." : "self_attn."));
          break;
        case Mixer::latent:
          latent(here_ + "self_attn.");
          break;
      }
      if (!c.experts[size_t(layer_)])
        network("ffn.", here_ + dense_network(), c.feed_forward);
      else
        experts(here_ + (kimi_ ? "block_sparse_moe." : "mlp."));
    }
    map_.vector("norm.weight", c.channels, model + "norm.weight", norm_);
    if (!c.tied) map_.whole("head.weight", table, std::string(head_name));
    map_.refuse_others({"model.visual.", "mtp."});
  }

 private:
  std::string ours(std::string_view name) const { return layer_tensor(layer_, name); }
  void matrix(std::string_view name, int64_t out, int64_t in, const std::string& stored) {
    map_.whole(ours(name), {out, in}, stored);
  }
  void vector(std::string_view name, int64_t size, const std::string& stored,
              Change change = Change::none) {
    map_.vector(ours(name), size, stored, change);
  }

  void norms() {
    if (c.norms_after && c.mixers[size_t(layer_)] == Mixer::attention) {
      std::string first = "post_attention_layernorm.weight";
      if (!map_.has(here_ + first) && map_.has(here_ + "feedforward_layer_norm.weight"))
        first = "feedforward_layer_norm.weight";  // as transformers 5.23 saves it
      vector("mixer_output_norm.weight", c.channels, here_ + first);
      vector("ffn_output_norm.weight", c.channels, here_ + "post_feedforward_layernorm.weight");
      return;
    }
    std::string first = fla_ ? "attn_norm.weight" : "input_layernorm.weight";
    std::string second = fla_ ? "mlp_norm.weight" : "post_attention_layernorm.weight";
    if (!map_.has(here_ + first) && map_.has(here_ + "attention_layer_norm.weight"))
      first = "attention_layer_norm.weight", second = "feedforward_layer_norm.weight";
    vector("mixer_norm.weight", c.channels, here_ + first, norm_);
    vector("ffn_norm.weight", c.channels, here_ + second, norm_);
  }

  // One matrix for each of q, k and v.
  void recurrent(const std::string& at) {
    const int64_t keys = c.key_channels(), values = c.value_channels(), mixed = c.mixed_channels();
    place_three("mixer.qkv.weight", at, "_proj.weight", {keys, keys, values}, c.channels);
    // transformers 5.23 saves those of OLMo-Hybrid as three equal parts of all rows.
    const int64_t third = (mixed + 2) / 3;
    const bool in_thirds = c.norms_after && map_.has_rows(at + "q_conv1d.weight", third);
    const Three cut =
        in_thirds ? Three{third, third, mixed - 2 * third} : Three{keys, keys, values};
    if (c.taps) place_three("mixer.convolution.weight", at, "_conv1d.weight", cut, c.taps);
    if (c.beta_scale != 0)
      matrix("mixer.beta.weight", c.value_heads, c.channels, at + "b_proj.weight");
    if (c.rule == kernel::Rule::kda) {
      low_rank("mixer.decay", c.decays(), c.decay_rank, at + (kimi_ ? "f_a_proj" : "f_proj.0"),
               at + (kimi_ ? "f_b_proj" : "f_proj.1"));
    } else if (c.decays()) {
      matrix("mixer.decay.weight", c.decays(), c.channels, at + "a_proj.weight");
    }
    if (c.decays()) decay_vectors(at);
    if (c.gate != OutputGate::none && c.gate_rank)
      low_rank("mixer.gate", values, c.gate_rank, at + (kimi_ ? "g_a_proj" : "g_proj.0"),
               at + (kimi_ ? "g_b_proj" : "g_proj.1"));
    else if (c.gate != OutputGate::none)
      matrix("mixer.gate.weight", values, c.channels, at + "g_proj.weight");
    if (c.gate_bias) vector("mixer.gate_bias", values, at + "g_proj.1.bias");
    vector("mixer.output_norm.weight", c.value_size, at + "o_norm.weight");
    matrix("mixer.output.weight", c.channels, values, at + "o_proj.weight");
    sane(at);
  }
  using Three = std::array<int64_t, 3>;
  // The rows of q, k and v.
  void place_three(std::string_view name, const std::string& at, std::string_view stored,
                   Three rows, int64_t length) {
    std::vector<Rows> all;
    for (size_t i = 0; i < rows.size(); ++i)
      all.push_back(map_.all(cat(at, "qkv"[i], stored), rows[i], length));
    map_.place(ours(name), {c.mixed_channels(), length}, all);
  }
  void sane(const std::string& at) {
    if (c.sane) matrix("mixer.w_tau", c.channels, c.value_heads, at + "w_tau");
  }

  void low_rank(const std::string& name, int64_t out, int64_t rank, const std::string& down,
                const std::string& up) {
    matrix(name + "_down.weight", rank, c.channels, down + ".weight");
    matrix(name + "_up.weight", out, rank, up + ".weight");
  }

  void decay_vectors(const std::string& at) {
    vector("mixer.decay_log_rate", c.value_heads, at + "A_log");
    vector("mixer.decay_bias", c.decays(), at + "dt_bias");
  }

  void fused_recurrent(const std::string& at) {
    const int64_t values = c.value_channels(), mixed = c.mixed_channels();
    matrix("mixer.convolution.weight", mixed, c.taps, at + "conv1d.weight");
    if (c.model_type == "qwen3_next") {
      grouped_projections(at);
    } else {
      matrix("mixer.qkv.weight", mixed, c.channels, at + "in_proj_qkv.weight");
      matrix("mixer.gate.weight", values, c.channels, at + "in_proj_z.weight");
      matrix("mixer.beta.weight", c.value_heads, c.channels, at + "in_proj_b.weight");
      matrix("mixer.decay.weight", c.value_heads, c.channels, at + "in_proj_a.weight");
    }
    decay_vectors(at);
    vector("mixer.output_norm.weight", c.value_size, at + "norm.weight");
    matrix("mixer.output.weight", c.channels, values, at + "out_proj.weight");
    sane(at);
  }

  // Rows of each key head: q, k, the v of its value heads, their z; and b, a.
  void grouped_projections(const std::string& at) {
    const int64_t ratio = c.value_heads / c.key_heads, k = c.key_size, v = ratio * c.value_size;
    const int64_t group = 2 * k + 2 * v;
    const StoredTensor& all =
        map_.stored(at + "in_proj_qkvz.weight", c.key_heads * group, c.channels);
    const StoredTensor& ba = map_.stored(at + "in_proj_ba.weight", 2 * c.value_heads, c.channels);
    const auto rows = [&](const StoredTensor& from, int64_t step, int64_t first, int64_t count) {
      std::vector<Rows> found;
      for (int64_t h = 0; h < c.key_heads; ++h) found.push_back({&from, h * step + first, count});
      return found;
    };
    std::vector<Rows> qkv = rows(all, group, 0, k);
    for (const std::vector<Rows>& more : {rows(all, group, k, k), rows(all, group, 2 * k, v)})
      qkv.insert(qkv.end(), more.begin(), more.end());
    map_.place(ours("mixer.qkv.weight"), {c.mixed_channels(), c.channels}, qkv);
    map_.place(ours("mixer.gate.weight"), {c.value_channels(), c.channels},
               rows(all, group, 2 * k + v, v));
    map_.place(ours("mixer.beta.weight"), {c.value_heads, c.channels},
               rows(ba, 2 * ratio, 0, ratio));
    map_.place(ours("mixer.decay.weight"), {c.value_heads, c.channels},
               rows(ba, 2 * ratio, ratio, ratio));
  }

  void attention(const std::string& at) {
    const int64_t queries = c.heads * c.head_size, keys = c.kv_heads * c.head_size;
    if (c.attention_gate) {  // of each head: its query, its gate
      const StoredTensor& both = map_.stored(at + "q_proj.weight", 2 * queries, c.channels);
      std::vector<Rows> q, gate;
      for (int64_t h = 0; h < c.heads; ++h) {
        q.push_back({&both, 2 * h * c.head_size, c.head_size});
        gate.push_back({&both, (2 * h + 1) * c.head_size, c.head_size});
      }
      map_.place(ours("mixer.q.weight"), {queries, c.channels}, q);
      map_.place(ours("mixer.gate.weight"), {queries, c.channels}, gate);
    } else {
      matrix("mixer.q.weight", queries, c.channels, at + "q_proj.weight");
    }
    matrix("mixer.k.weight", keys, c.channels, at + "k_proj.weight");
    matrix("mixer.v.weight", keys, c.channels, at + "v_proj.weight");
    if (c.qk_norm != QkNorm::none) {
      const bool row = c.qk_norm == QkNorm::row;
      vector("mixer.q_norm.weight", row ? queries : c.head_size, at + "q_norm.weight", norm_);
      vector("mixer.k_norm.weight", row ? keys : c.head_size, at + "k_norm.weight", norm_);
    }
    matrix("mixer.output.weight", c.channels, queries, at + "o_proj.weight");
  }

  void latent(const std::string& at) {
    matrix("mixer.q.weight", c.heads * (c.latent_key_size + c.shared_key_size), c.channels,
           at + "q_proj.weight");
    matrix("mixer.kv_down.weight", c.latent_size + c.shared_key_size, c.channels,
           at + "kv_a_proj_with_mqa.weight");
    vector("mixer.kv_norm.weight", c.latent_size, at + "kv_a_layernorm.weight");
    const int64_t k = c.latent_key_size, v = c.latent_value_size;
    const StoredTensor& both =
        map_.stored(at + "kv_b_proj.weight", c.heads * (k + v), c.latent_size);
    std::vector<Rows> keys, values;
    for (int64_t h = 0; h < c.heads; ++h) {
      keys.push_back({&both, h * (k + v), k});
      values.push_back({&both, h * (k + v) + k, v});
    }
    map_.place(ours("mixer.k_up.weight"), {c.heads, c.latent_size, k}, keys, Change::transpose);
    map_.place(ours("mixer.v_up.weight"), {c.heads, v, c.latent_size}, values);
    matrix("mixer.output.weight", c.channels, c.heads * v, at + "o_proj.weight");
  }

  // transformers calls it like the experts of other layers.
  std::string dense_network() const {
    const std::string as_experts = "block_sparse_moe.";
    return kimi_ && map_.has(cat(here_, as_experts, "gate_proj.weight")) ? as_experts : "mlp.";
  }
  void network(const std::string& name, const std::string& at, int64_t width) {
    matrix(name + "gate.weight", width, c.channels, at + "gate_proj.weight");
    matrix(name + "up.weight", width, c.channels, at + "up_proj.weight");
    matrix(name + "down.weight", c.channels, width, at + "down_proj.weight");
  }

  void experts(const std::string& at) {
    matrix("ffn.router.weight", c.expert_count, c.channels, at + "gate.weight");
    if (c.sigmoid_router)
      vector("ffn.router_bias", c.expert_count, at + "gate.e_score_correction_bias");
    const int64_t width = c.expert_size;
    std::vector<Rows> gate, up, down;
    if (map_.has(at + "experts.gate_up_proj")) {
      const StoredTensor& both =
          map_.stored(at + "experts.gate_up_proj", c.expert_count * 2 * width, c.channels);
      for (int64_t e = 0; e < c.expert_count; ++e) {
        gate.push_back({&both, 2 * e * width, width});
        up.push_back({&both, (2 * e + 1) * width, width});
      }
      down.push_back(map_.all(at + "experts.down_proj", c.expert_count * c.channels, width));
    } else {
      for (int64_t e = 0; e < c.expert_count; ++e) {
        const auto one = [&](const char* name, const char* of_kimi, int64_t rows, int64_t length) {
          return map_.all(cat(at, "experts.", e, ".", kimi_ ? of_kimi : name, ".weight"), rows,
                          length);
        };
        gate.push_back(one("gate_proj", "w1", width, c.channels));
        up.push_back(one("up_proj", "w3", width, c.channels));
        down.push_back(one("down_proj", "w2", c.channels, width));
      }
    }
    map_.place(ours("ffn.experts.gate.weight"), {c.expert_count, width, c.channels}, gate);
    map_.place(ours("ffn.experts.up.weight"), {c.expert_count, width, c.channels}, up);
    map_.place(ours("ffn.experts.down.weight"), {c.expert_count, c.channels, width}, down);
    if (c.shared_expert_size)
      network("ffn.shared.", at + (kimi_ ? "shared_experts." : "shared_expert."),
              c.shared_expert_size);
    if (c.shared_expert_size && c.shared_expert_gate)
      matrix("ffn.shared_gate.weight", 1, c.channels, at + "shared_expert_gate.weight");
  }

  TensorMap& map_;
  const Config& c;
  const bool fla_, qwen_, kimi_, nested_;
  const Change norm_;
  int64_t layer_ = 0;
  std::string here_;
};

}  // namespace

void map_hugging_face_names(TensorMap& map) { Names(map).all(); }

}  // namespace deltasane::gated_delta
