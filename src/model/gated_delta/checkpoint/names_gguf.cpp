// Names of llama.cpp's GGUF files: docs/architectures.md.
//
// Norms have 1 added already. Files of qwen35 and qwen35moe have value heads in tiled order: head i of
// the file is our head (i mod key heads) ratio + floor(i / key heads). Here they are put in order.
#include "model/gated_delta/checkpoint/tensor_map.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

class GgufNames {
 public:
  explicit GgufNames(TensorMap& map)
      : map_(map),
        c(map.config()),
        kimi_(c.model_type == "kimi_linear"),
        tiled_(c.model_type.starts_with("qwen3_5") && c.value_heads != c.key_heads) {}

  void all() {
    const Shape table{c.vocabulary, c.channels};
    map_.whole("embedding.weight", table, "token_embd.weight");
    for (layer_ = 0; layer_ < c.layers(); ++layer_) {
      here_ = cat("blk.", layer_, ".");
      vector("mixer_norm.weight", c.channels, "attn_norm.weight");
      vector("ffn_norm.weight", c.channels,
             kimi_ ? "ffn_norm.weight" : "post_attention_norm.weight");
      const Mixer mixer = c.mixers[size_t(layer_)];
      if (mixer == Mixer::recurrent)
        kimi_ ? kimi_recurrent() : recurrent();
      else
        mixer == Mixer::attention ? attention() : latent();
      c.experts[size_t(layer_)] ? experts() : network("ffn.", "", c.feed_forward);
    }
    map_.vector("norm.weight", c.channels, "output_norm.weight");
    if (!c.tied) map_.whole("head.weight", table, "output.weight");
    // Layers that predict further tokens follow the others.
    map_.refuse_others({cat("blk.", c.layers(), "."), cat("blk.", c.layers() + 1, ".")});
  }

 private:
  std::string ours(std::string_view name) const { return layer_tensor(layer_, name); }
  void matrix(std::string_view name, int64_t out, int64_t in, std::string_view stored) {
    map_.whole(ours(name), {out, in}, cat(here_, stored));
  }
  void vector(std::string_view name, int64_t size, std::string_view stored,
              Change change = Change::none) {
    map_.vector(ours(name), size, cat(here_, stored), change);
  }

  // Rows [first, ..) of value heads of `size` rows each, in our order.
  std::vector<Rows> value_heads(const StoredTensor& from, int64_t first, int64_t size) const {
    if (!tiled_) return {{&from, first, c.value_heads * size}};
    std::vector<Rows> rows;
    for (int64_t head = 0; head < c.value_heads; ++head)  // ours
      rows.push_back({&from, first + tiled_head(c, head) * size, size});
    return rows;
  }
  void by_value_head(std::string_view name, const Shape& shape, int64_t size,
                     std::string_view stored, Change change = Change::none) {
    const int64_t length = shape.rank() == 1 ? 1 : shape[1];
    const StoredTensor& all = map_.stored(cat(here_, stored), shape[0], length);
    map_.place(ours(name), shape, value_heads(all, 0, size), change);
  }
  // q and k, and v by value heads.
  void mixed(std::string_view name, int64_t length, std::string_view stored) {
    const StoredTensor& all = map_.stored(cat(here_, stored), c.mixed_channels(), length);
    std::vector<Rows> rows{{&all, 0, 2 * c.key_channels()}};
    for (const Rows& more : value_heads(all, 2 * c.key_channels(), c.value_size))
      rows.push_back(more);
    map_.place(ours(name), {c.mixed_channels(), length}, rows);
  }

  void recurrent() {
    const int64_t values = c.value_channels();
    mixed("mixer.qkv.weight", c.channels, "attn_qkv.weight");
    mixed("mixer.convolution.weight", c.taps, "ssm_conv1d.weight");
    by_value_head("mixer.gate.weight", {values, c.channels}, c.value_size, "attn_gate.weight");
    if (c.model_type == "qwen3_next") {
      beta_and_decay_of_key_heads();
    } else {
      by_value_head("mixer.beta.weight", {c.value_heads, c.channels}, 1, "ssm_beta.weight");
      by_value_head("mixer.decay.weight", {c.value_heads, c.channels}, 1, "ssm_alpha.weight");
    }
    by_value_head("mixer.decay_log_rate", {c.value_heads}, 1, "ssm_a", Change::log_of_negative);
    by_value_head("mixer.decay_bias", {c.value_heads}, 1, "ssm_dt.bias");
    vector("mixer.output_norm.weight", c.value_size, "ssm_norm.weight");
    map_.whole(ours("mixer.output.weight"), {c.channels, values}, cat(here_, "ssm_out.weight"),
               tiled_ ? Change::group_the_columns : Change::none);
  }

  // b and a of each key head's value heads.
  void beta_and_decay_of_key_heads() {
    const int64_t ratio = c.value_heads / c.key_heads;
    const StoredTensor& both =
        map_.stored(cat(here_, "ssm_ba.weight"), 2 * c.value_heads, c.channels);
    std::vector<Rows> beta, decay;
    for (int64_t h = 0; h < c.key_heads; ++h) {
      beta.push_back({&both, 2 * h * ratio, ratio});
      decay.push_back({&both, (2 * h + 1) * ratio, ratio});
    }
    map_.place(ours("mixer.beta.weight"), {c.value_heads, c.channels}, beta);
    map_.place(ours("mixer.decay.weight"), {c.value_heads, c.channels}, decay);
  }

  void kimi_recurrent() {
    const int64_t keys = c.key_channels(), values = c.value_channels();
    std::vector<Rows> projections, convolutions;
    for (const auto& [name, rows] : {std::pair{"q", keys}, {"k", keys}, {"v", values}}) {
      projections.push_back(map_.all(cat(here_, "attn_", name, ".weight"), rows, c.channels));
      convolutions.push_back(map_.all(cat(here_, "ssm_conv1d_", name, ".weight"), rows, c.taps));
    }
    map_.place(ours("mixer.qkv.weight"), {c.mixed_channels(), c.channels}, projections);
    map_.place(ours("mixer.convolution.weight"), {c.mixed_channels(), c.taps}, convolutions);
    matrix("mixer.beta.weight", c.value_heads, c.channels, "ssm_beta.weight");
    matrix("mixer.decay_down.weight", c.decay_rank, c.channels, "ssm_f_a.weight");
    matrix("mixer.decay_up.weight", c.decays(), c.decay_rank, "ssm_f_b.weight");
    vector("mixer.decay_log_rate", c.value_heads, "ssm_a", Change::log_of_negative);
    vector("mixer.decay_bias", c.decays(), "ssm_dt.bias");
    matrix("mixer.gate_down.weight", c.gate_rank, c.channels, "ssm_g_a.weight");
    matrix("mixer.gate_up.weight", values, c.gate_rank, "ssm_g_b.weight");
    vector("mixer.output_norm.weight", c.value_size, "ssm_norm.weight");
    matrix("mixer.output.weight", c.channels, values, "attn_output.weight");
  }

  void attention() {
    const int64_t queries = c.heads * c.head_size, keys = c.kv_heads * c.head_size;
    const StoredTensor& both = map_.stored(cat(here_, "attn_q.weight"), 2 * queries, c.channels);
    std::vector<Rows> q, gate;
    for (int64_t h = 0; h < c.heads; ++h) {  // of each head: its query, its gate
      q.push_back({&both, 2 * h * c.head_size, c.head_size});
      gate.push_back({&both, (2 * h + 1) * c.head_size, c.head_size});
    }
    map_.place(ours("mixer.q.weight"), {queries, c.channels}, q);
    map_.place(ours("mixer.gate.weight"), {queries, c.channels}, gate);
    matrix("mixer.k.weight", keys, c.channels, "attn_k.weight");
    matrix("mixer.v.weight", keys, c.channels, "attn_v.weight");
    vector("mixer.q_norm.weight", c.head_size, "attn_q_norm.weight");
    vector("mixer.k_norm.weight", c.head_size, "attn_k_norm.weight");
    matrix("mixer.output.weight", c.channels, queries, "attn_output.weight");
  }

  void latent() {
    const int64_t k = c.latent_key_size, v = c.latent_value_size;
    matrix("mixer.q.weight", c.heads * (k + c.shared_key_size), c.channels, "attn_q.weight");
    matrix("mixer.kv_down.weight", c.latent_size + c.shared_key_size, c.channels,
           "attn_kv_a_mqa.weight");
    vector("mixer.kv_norm.weight", c.latent_size, "attn_kv_a_norm.weight");
    const Shape k_up{c.heads, c.latent_size, k}, v_up{c.heads, v, c.latent_size};
    if (map_.to_write() || map_.has(here_ + "attn_k_b.weight")) {
      map_.whole(ours("mixer.k_up.weight"), k_up, here_ + "attn_k_b.weight");
      map_.whole(ours("mixer.v_up.weight"), v_up, here_ + "attn_v_b.weight");
    } else {  // of each head: keys, values
      const StoredTensor& both =
          map_.stored(here_ + "attn_kv_b.weight", c.heads * (k + v), c.latent_size);
      std::vector<Rows> keys, values;
      for (int64_t h = 0; h < c.heads; ++h) {
        keys.push_back({&both, h * (k + v), k});
        values.push_back({&both, h * (k + v) + k, v});
      }
      map_.place(ours("mixer.k_up.weight"), k_up, keys, Change::transpose);
      map_.place(ours("mixer.v_up.weight"), v_up, values);
    }
    matrix("mixer.output.weight", c.channels, c.heads * v, "attn_output.weight");
  }

  void network(const std::string& name, const std::string& kind, int64_t width) {
    matrix(name + "gate.weight", width, c.channels, cat("ffn_gate", kind, ".weight"));
    matrix(name + "up.weight", width, c.channels, cat("ffn_up", kind, ".weight"));
    matrix(name + "down.weight", c.channels, width, cat("ffn_down", kind, ".weight"));
  }

  void experts() {
    const int64_t count = c.expert_count, width = c.expert_size;
    matrix("ffn.router.weight", count, c.channels, "ffn_gate_inp.weight");
    if (c.sigmoid_router) vector("ffn.router_bias", count, "exp_probs_b.bias");
    const auto packed = [&](std::string_view name, int64_t out, int64_t in,
                            std::string_view stored) {
      map_.whole(ours(name), {count, out, in}, cat(here_, stored));
    };
    packed("ffn.experts.gate.weight", width, c.channels, "ffn_gate_exps.weight");
    packed("ffn.experts.up.weight", width, c.channels, "ffn_up_exps.weight");
    packed("ffn.experts.down.weight", c.channels, width, "ffn_down_exps.weight");
    if (c.shared_expert_size) network("ffn.shared.", "_shexp", c.shared_expert_size);
    if (c.shared_expert_size && c.shared_expert_gate)
      matrix("ffn.shared_gate.weight", 1, c.channels, "ffn_gate_inp_shexp.weight");
  }

  TensorMap& map_;
  const Config& c;
  const bool kimi_, tiled_;
  int64_t layer_ = 0;
  std::string here_;
};

}  // namespace

void map_gguf_names(TensorMap& map) { GgufNames(map).all(); }

}  // namespace deltasane::gated_delta
