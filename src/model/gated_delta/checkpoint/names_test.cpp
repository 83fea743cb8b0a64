// Where each number of a file goes: stored tensors count their elements, and ours are compared with
// the formulas of docs/architectures.md.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "model/gated_delta/checkpoint/checkpoint.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

constexpr int64_t C = 3, K = 4, V = 4, key_heads = 2, value_heads = 6, ratio = 3, taps = 2;
constexpr int64_t D = key_heads * K, mixed = 2 * D + value_heads * V, F = 5;
constexpr int64_t heads = 4, kv_heads = 2, head_size = 4, vocabulary = 7;

// Two layers, a recurrence and attention, of one of the file formats.
class MadeFile {
 public:
  TensorFile file{"made", "made"};

  // Element i is 1000 * number of the tensor + i, or that number below 0 + i.
  void add(const std::string& name, const Shape& shape, float sign = 1) {
    std::vector<float>& numbers = memory_.emplace_back();
    first_[name] = sign * float(1000 * memory_.size());
    for (int64_t i = 0; i < shape.elements(); ++i) numbers.push_back(first_[name] + float(i));
    StoredTensor tensor;
    tensor.name = name, tensor.shape = shape, tensor.stride = contiguous_strides(shape);
    tensor.bytes = std::as_bytes(std::span(numbers));
    file.add(tensor);
  }
  void set(Metadata settings) { file.metadata().merge(settings); }
  float at(const std::string& name, int64_t i) const { return first_.at(name) + float(i); }

 private:
  std::deque<std::vector<float>> memory_;
  std::map<std::string, float> first_;
};

// Row i of ours is row from(i) of a stored matrix of `length` columns.
template <class From>
void expect_rows(const Checkpoint& checkpoint, const MadeFile& made, const std::string& ours,
                 const std::string& stored, int64_t length, From from) {
  const Tensor<float> found = checkpoint.read(ours);
  for (int64_t i = 0; i < found.elements(); ++i)
    ASSERT_EQ(found[i], made.at(stored, from(i / length) * length + i % length))
        << ours << " " << i;
}

const auto same = [](int64_t row) { return row; };

MadeFile hugging_face(const std::string& type) {
  MadeFile made;
  const bool next = type == "qwen3_next";
  made.set({{"config.model_type", type},
            {"config.vocab_size", "7"},
            {"config.hidden_size", "3"},
            {"config.intermediate_size", "5"},
            {"config.num_hidden_layers", "2"},
            {"config.full_attention_interval", "2"},
            {"config.num_attention_heads", "4"},
            {"config.num_key_value_heads", "2"},
            {"config.head_dim", "4"},
            {"config.partial_rotary_factor", "0.5"},
            {"config.linear_num_key_heads", "2"},
            {"config.linear_num_value_heads", "6"},
            {"config.linear_key_head_dim", "4"},
            {"config.linear_value_head_dim", "4"},
            {"config.linear_conv_kernel_dim", "2"}});
  if (next) made.set({{"config.decoder_sparse_step", "3"}, {"config.num_experts", "2"}});
  made.add("model.embed_tokens.weight", {vocabulary, C});
  made.add("lm_head.weight", {vocabulary, C}), made.add("model.norm.weight", {C});
  for (const std::string at : {"model.layers.0.", "model.layers.1."}) {
    made.add(at + "input_layernorm.weight", {C});
    made.add(at + "post_attention_layernorm.weight", {C});
    for (const char* const name : {"mlp.gate_proj.weight", "mlp.up_proj.weight"})
      made.add(at + name, {F, C});
    made.add(at + "mlp.down_proj.weight", {C, F});
  }
  const std::string linear = "model.layers.0.linear_attn.", full = "model.layers.1.self_attn.";
  if (next) {
    made.add(linear + "in_proj_qkvz.weight", {mixed + value_heads * V, C});
    made.add(linear + "in_proj_ba.weight", {2 * value_heads, C});
  } else {
    made.add(linear + "in_proj_qkv.weight", {mixed, C});
    made.add(linear + "in_proj_z.weight", {value_heads * V, C});
    for (const char* const name : {"in_proj_b.weight", "in_proj_a.weight"})
      made.add(linear + name, {value_heads, C});
  }
  made.add(linear + "conv1d.weight", {mixed, 1, taps});
  for (const char* const name : {"A_log", "dt_bias"}) made.add(linear + name, {value_heads});
  made.add(linear + "norm.weight", {V});
  made.add(linear + "out_proj.weight", {C, value_heads * V});
  made.add(full + "q_proj.weight", {2 * heads * head_size, C});
  for (const char* const name : {"k_proj.weight", "v_proj.weight"})
    made.add(full + name, {kv_heads * head_size, C});
  made.add(full + "o_proj.weight", {C, heads * head_size});
  for (const char* const name : {"q_norm.weight", "k_norm.weight"}) made.add(full + name, {head_size});
  return made;
}

TEST(NamesOfHuggingFace, NormsGetTheirOneAndQueriesTheirGates) {
  const MadeFile made = hugging_face("qwen3_5");
  const Checkpoint found(made.file);
  const auto plus_one = [&](const std::string& ours, const std::string& stored) {
    const Tensor<float> norm = found.read(ours);
    for (int64_t i = 0; i < norm.elements(); ++i) EXPECT_EQ(norm[i], 1 + made.at(stored, i)) << ours;
  };
  plus_one("norm.weight", "model.norm.weight");
  plus_one("layers.0.mixer_norm.weight", "model.layers.0.input_layernorm.weight");
  plus_one("layers.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight");
  plus_one("layers.1.mixer.q_norm.weight", "model.layers.1.self_attn.q_norm.weight");
  plus_one("layers.1.mixer.k_norm.weight", "model.layers.1.self_attn.k_norm.weight");
  expect_rows(found, made, "layers.0.mixer.output_norm.weight",
              "model.layers.0.linear_attn.norm.weight", 1, same);  // the one that is plain
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  expect_rows(found, made, "layers.1.mixer.q.weight", q, C,
              [](int64_t row) { return row / head_size * 2 * head_size + row % head_size; });
  expect_rows(found, made, "layers.1.mixer.gate.weight", q, C,
              [](int64_t row) { return row / head_size * 2 * head_size + head_size + row % head_size; });
  expect_rows(found, made, "layers.0.mixer.qkv.weight",
              "model.layers.0.linear_attn.in_proj_qkv.weight", C, same);
  const Tensor<float> rate = found.read("layers.0.mixer.decay_log_rate");
  EXPECT_EQ(rate[0], made.at("model.layers.0.linear_attn.A_log", 0));
}

TEST(NamesOfHuggingFace, MatricesGroupedByKeyHeadAreUngrouped) {
  const MadeFile made = hugging_face("qwen3_next");
  const Checkpoint found(made.file);
  const std::string linear = "model.layers.0.linear_attn.";
  constexpr int64_t group = 2 * K + 2 * ratio * V;
  expect_rows(found, made, "layers.0.mixer.qkv.weight", linear + "in_proj_qkvz.weight", C,
              [](int64_t row) {
                if (row < D) return row / K * group + row % K;
                if (row < 2 * D) return (row - D) / K * group + K + row % K;
                const int64_t v = row - 2 * D;
                return v / (ratio * V) * group + 2 * K + v % (ratio * V);
              });
  expect_rows(found, made, "layers.0.mixer.gate.weight", linear + "in_proj_qkvz.weight", C,
              [](int64_t z) {
                return z / (ratio * V) * group + 2 * K + ratio * V + z % (ratio * V);
              });
  for (const bool decay : {false, true})
    expect_rows(found, made, decay ? "layers.0.mixer.decay.weight" : "layers.0.mixer.beta.weight",
                linear + "in_proj_ba.weight", C, [&](int64_t head) {
                  return head / ratio * 2 * ratio + head % ratio + (decay ? ratio : 0);
                });
}

// As transformers 5.23 saves it: attention's norm under another name, and the convolutions of q, k and v, 8, 8 and
// 12 rows, cut into three equal parts as far as they go: 10, 10 and 8.
TEST(NamesOfHuggingFace, WhatTransformersSavesOfOlmoHybridIsPutTogether) {
  constexpr int64_t width = 4, keys = 8, values = 12, part = 10;
  MadeFile made;
  made.set({{"config.model_type", "olmo_hybrid"},
            {"config.vocab_size", "7"},
            {"config.hidden_size", "4"},
            {"config.intermediate_size", "5"},
            {"config.num_hidden_layers", "2"},
            {"config.num_attention_heads", "2"},
            {"config.linear_num_key_heads", "2"},
            {"config.linear_num_value_heads", "2"},
            {"config.linear_key_head_dim", "4"},
            {"config.linear_value_head_dim", "6"},
            {"config.linear_conv_kernel_dim", "2"}});
  made.file.lists()["config.layer_types"] = {"linear_attention", "full_attention"};
  made.add("model.embed_tokens.weight", {vocabulary, width});
  made.add("lm_head.weight", {vocabulary, width}), made.add("model.norm.weight", {width});
  const std::string first = "model.layers.0.", second = "model.layers.1.";
  for (const std::string& name : {first + "attention_layer_norm", first + "feedforward_layer_norm",
                                  second + "feedforward_layer_norm",
                                  second + "post_feedforward_layernorm"})
    made.add(name + ".weight", {width});
  for (const std::string& at : {first, second}) {
    for (const char* const name : {"mlp.gate_proj.weight", "mlp.up_proj.weight"})
      made.add(at + name, {F, width});
    made.add(at + "mlp.down_proj.weight", {width, F});
  }
  const std::string linear = first + "linear_attn.", full = second + "self_attn.";
  for (const char* const name : {"q_proj.weight", "k_proj.weight"})
    made.add(linear + name, {keys, width});
  for (const char* const name : {"v_proj.weight", "g_proj.weight"})
    made.add(linear + name, {values, width});
  made.add(linear + "q_conv1d.weight", {part, 1, taps});
  made.add(linear + "k_conv1d.weight", {part, 1, taps});
  made.add(linear + "v_conv1d.weight", {2 * keys + values - 2 * part, 1, taps});
  for (const char* const name : {"a_proj.weight", "b_proj.weight"}) made.add(linear + name, {2, width});
  for (const char* const name : {"A_log", "dt_bias"}) made.add(linear + name, {2});
  made.add(linear + "o_norm.weight", {6}), made.add(linear + "o_proj.weight", {width, values});
  for (const char* const name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    made.add(full + name + ".weight", {width, width});
  for (const char* const name : {"q_norm.weight", "k_norm.weight"}) made.add(full + name, {width});

  const Checkpoint found(made.file);
  const Tensor<float> convolution = found.read("layers.0.mixer.convolution.weight");
  ASSERT_EQ(convolution.shape(), (Shape{2 * keys + values, taps}));
  for (int64_t i = 0; i < convolution.elements(); ++i) {
    const int64_t which = i / (part * taps);
    EXPECT_EQ(convolution[i],
              made.at(linear + "qkv"[which] + "_conv1d.weight", i - which * part * taps));
  }
  expect_rows(found, made, "layers.1.mixer_output_norm.weight",
              second + "feedforward_layer_norm.weight", 1, same);
  expect_rows(found, made, "layers.1.ffn_output_norm.weight",
              second + "post_feedforward_layernorm.weight", 1, same);
}

MadeFile gguf() {
  MadeFile made;
  made.set({{"general.architecture", "qwen35"},
            {"qwen35.block_count", "2"},
            {"qwen35.embedding_length", "3"},
            {"qwen35.feed_forward_length", "5"},
            {"qwen35.attention.head_count", "4"},
            {"qwen35.attention.head_count_kv", "2"},
            {"qwen35.attention.key_length", "4"},
            {"qwen35.attention.value_length", "4"},
            {"qwen35.attention.layer_norm_rms_epsilon", "1e-06"},
            {"qwen35.rope.dimension_count", "2"},
            {"qwen35.rope.freq_base", "10000"},
            {"qwen35.ssm.conv_kernel", "2"},
            {"qwen35.ssm.state_size", "4"},
            {"qwen35.ssm.group_count", "2"},
            {"qwen35.ssm.time_step_rank", "6"},
            {"qwen35.ssm.inner_size", "24"}});
  made.add("token_embd.weight", {vocabulary, C}), made.add("output_norm.weight", {C});
  for (const std::string at : {"blk.0.", "blk.1."}) {
    made.add(at + "attn_norm.weight", {C}), made.add(at + "post_attention_norm.weight", {C});
    made.add(at + "ffn_gate.weight", {F, C}), made.add(at + "ffn_up.weight", {F, C});
    made.add(at + "ffn_down.weight", {C, F});
  }
  made.add("blk.0.attn_qkv.weight", {mixed, C}), made.add("blk.0.ssm_conv1d.weight", {mixed, taps});
  made.add("blk.0.attn_gate.weight", {value_heads * V, C});
  made.add("blk.0.ssm_beta.weight", {value_heads, C});
  made.add("blk.0.ssm_alpha.weight", {value_heads, C});
  made.add("blk.0.ssm_a", {value_heads}, -1), made.add("blk.0.ssm_dt.bias", {value_heads});
  made.add("blk.0.ssm_norm.weight", {V}), made.add("blk.0.ssm_out.weight", {C, value_heads * V});
  made.add("blk.1.attn_q.weight", {2 * heads * head_size, C});
  made.add("blk.1.attn_k.weight", {kv_heads * head_size, C});
  made.add("blk.1.attn_v.weight", {kv_heads * head_size, C});
  made.add("blk.1.attn_output.weight", {C, heads * head_size});
  made.add("blk.1.attn_q_norm.weight", {head_size}), made.add("blk.1.attn_k_norm.weight", {head_size});
  return made;
}

// Head i of the file is our head (i mod key heads) ratio + floor(i / key heads).
int64_t file_head(int64_t ours) {
  for (int64_t i = 0; i < value_heads; ++i)
    if (i % key_heads * ratio + i / key_heads == ours) return i;
  return -1;
}
int64_t file_row(int64_t row) { return file_head(row / V) * V + row % V; }

TEST(NamesOfGguf, TiledValueHeadsArePutInOrder) {
  const MadeFile made = gguf();
  const Checkpoint found(made.file);
  const auto mixed_row = [](int64_t row) { return row < 2 * D ? row : 2 * D + file_row(row - 2 * D); };
  expect_rows(found, made, "layers.0.mixer.qkv.weight", "blk.0.attn_qkv.weight", C, mixed_row);
  expect_rows(found, made, "layers.0.mixer.convolution.weight", "blk.0.ssm_conv1d.weight", taps,
              mixed_row);
  expect_rows(found, made, "layers.0.mixer.gate.weight", "blk.0.attn_gate.weight", C, file_row);
  expect_rows(found, made, "layers.0.mixer.beta.weight", "blk.0.ssm_beta.weight", C, file_head);
  expect_rows(found, made, "layers.0.mixer.decay.weight", "blk.0.ssm_alpha.weight", C, file_head);
  expect_rows(found, made, "layers.0.mixer.decay_bias", "blk.0.ssm_dt.bias", 1, file_head);
  const Tensor<float> rate = found.read("layers.0.mixer.decay_log_rate");
  for (int64_t h = 0; h < value_heads; ++h)
    EXPECT_EQ(rate[h], std::log(-made.at("blk.0.ssm_a", file_head(h))));
  // Columns, as numbers and as the file has them.
  std::vector<std::byte> memory;
  const auto packed = found.packed("layers.0.mixer.output.weight", 0, memory);
  ASSERT_TRUE(packed);
  const Tensor<float> output = found.read("layers.0.mixer.output.weight");
  for (int64_t i = 0; i < output.elements(); ++i) {
    const int64_t row = i / (value_heads * V), column = i % (value_heads * V);
    EXPECT_EQ(output[i], made.at("blk.0.ssm_out.weight", row * value_heads * V + file_row(column)));
    float stored = 0;
    std::memcpy(&stored, packed->bytes.data() + i * 4, 4);
    EXPECT_EQ(stored, output[i]);
  }
}

TEST(NamesOfGguf, NormsAreAsTheyAreAndTheHeadIsTied) {
  const MadeFile made = gguf();
  const Checkpoint found(made.file);
  expect_rows(found, made, "norm.weight", "output_norm.weight", 1, same);
  expect_rows(found, made, "layers.1.mixer.q_norm.weight", "blk.1.attn_q_norm.weight", 1, same);
  EXPECT_TRUE(found.config().tied);
  EXPECT_FALSE(found.has("head.weight"));
}

TEST(NamesOfGguf, UnknownKeysAndTensorsAreNamed) {
  MadeFile made = gguf();
  made.set({{"qwen35.attention.sinks", "1"}});
  EXPECT_FAULT(Checkpoint(made.file), Fault::file, "qwen35.attention.sinks");
  MadeFile more = gguf();
  more.add("blk.0.attn_sinks.weight", {heads});
  EXPECT_FAULT(Checkpoint(more.file), Fault::file, "'blk.0.attn_sinks.weight': expected none");
}

}  // namespace
}  // namespace deltasane::gated_delta
