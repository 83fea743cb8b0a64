#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "format/safetensors/safetensors.h"
#include "format/quantize/fill.h"
#include "model/rwkv7/checkpoint/names.h"
#include "model/rwkv7/checkpoint/source.h"
#include "model/rwkv7/publish/publish.h"

namespace deltasane {
namespace {

using Json = nlohmann::ordered_json;

// What is made of one official tensor.
struct FlaTensor {
  std::string official;
  bool transposed;
};

// FLA spreads the mixes of the time mix, and no other vectors.
Shape fla_shape(const Rwkv7Row& row, const Shape& official) {
  if (row.suffix.starts_with("att.x_")) return {1, 1, official[0]};
  if (row.form == Rwkv7Row::Form::factor && !row.sane()) return {official[1], official[0]};
  return official;
}

// As people write the number, and not the digits of the double nearest to a float.
double shortest(float value) {
  const std::string text = cat(value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Json config_of(const Rwkv7Shape& shape, const Rwkv7Published& model,
               std::optional<int32_t> end_of_document) {
  const Json end = end_of_document ? Json(*end_of_document) : Json(nullptr);
  const double ratio = double(shape.feed_forward) / double(shape.channels);
  Json config{{"architectures", {"RWKV7ForCausalLM"}},
              {"model_type", "rwkv7"},
              {"attn", nullptr},
              {"attn_mode", "chunk"},
              {"hidden_size", shape.channels},
              {"hidden_ratio", ratio},
              {"intermediate_size", shape.feed_forward},
              {"num_hidden_layers", shape.layers},
              {"head_dim", shape.head_size},
              {"num_heads", shape.heads},
              {"decay_low_rank_dim", shape.rank_w},
              {"gate_low_rank_dim", shape.rank_g},
              {"a_low_rank_dim", shape.rank_a},
              {"v_low_rank_dim", shape.layers > 1 ? shape.rank_v : shape.rank_a},
              {"hidden_act", "sqrelu"},
              {"max_position_embeddings", 2048},
              {"norm_first", shape.embedding_norm},
              {"norm_bias", true},
              {"norm_eps", shortest(model.norms.layer_eps)},
              {"fuse_norm", model.norms.key == kernel::rsqrt_key_norm},
              {"fuse_cross_entropy", true},
              {"fuse_linear_cross_entropy", false},
              {"use_l2warp", false},
              {"use_cache", true},
              {"vocab_size", shape.vocabulary},
              {"value_dim", std::vector<int64_t>(size_t(shape.layers), shape.channels)},
              {"bos_token_id", end},
              {"eos_token_id", end},
              {"pad_token_id", end},
              {"tie_word_embeddings", false},
              {"initializer_range", 0.02},
              {"torch_dtype", model.type == StoredType::f32   ? "float32"
                              : model.type == StoredType::f16 ? "float16"
                                                              : "bfloat16"}};
  // FLA's own is always head_dim times norm_eps.
  if (model.norms.group_eps != float(double(shape.head_size) * shortest(model.norms.layer_eps)))
    config["group_norm_eps"] = shortest(model.norms.group_eps);
  if (model.sane) config["sane"] = {{"alpha", model.sane->alpha}, {"chunk", model.sane->chunk}};
  return config;
}

}  // namespace

void write_rwkv7_hugging_face(const fs::path& folder, const Rwkv7Published& model,
                              std::optional<int32_t> end_of_document) {
  if (!dtype_of(model.type))
    fail(Fault::usage, folder, ": expected f32, f16 or bf16 for safetensors, found ",
         name_of(model.type));
  const Rwkv7Shape shape = measure_rwkv7(model.source, EmbeddingNorm::optional);
  require(shape.sane == model.sane.has_value(), "a SANE model has SANE's settings");
  std::vector<PlannedTensor> plan;
  std::map<std::string, FlaTensor> made_of;
  each_rwkv7_parameter(shape, [&](const std::string& name, const Rwkv7Row& row, int64_t block) {
    const Shape official = rwkv7_shape(shape, row);
    plan.push_back({rwkv7_fla_name(block, row.suffix), model.type, fla_shape(row, official)});
    made_of[plan.back().name] = {name, row.form == Rwkv7Row::Form::factor && !row.sane()};
  });
  write_safetensors(folder / "model.safetensors", std::move(plan), {{"format", "pt"}},
                    [&](const PlannedTensor& tensor, const Sink& sink) {
                      const FlaTensor& from = made_of.at(tensor.name);
                      const Tensor<float> values = model.source.read(from.official);
                      from.transposed ? fill_transposed(tensor, values, sink)
                                      : fill_tensor(tensor, values, sink);
                    });
  const Json config = config_of(shape, model, end_of_document);
  replace_file(folder / "config.json", config.dump(2) + "\n");
  Json generation = Json::object();
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    generation[key] = config[key];
  replace_file(folder / "generation_config.json", generation.dump(2) + "\n");
}

}  // namespace deltasane
