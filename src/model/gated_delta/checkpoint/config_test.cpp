// What config.json of a Hugging Face folder leaves out, says twice, or says wrongly.
#include <gtest/gtest.h>

#include <functional>

#include "base/io/file.h"
#include "format/open.h"
#include "model/gated_delta/checkpoint/fixture_published.h"
#include "model/gated_delta/fixture.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

using Edit = std::function<void(TensorFile&)>;

// Of a small model of a kind, whose folder is changed after it is read.
Config config_of(const std::string& kind, const Edit& edit,
                 const std::function<void(Config&)>& prepare = [](Config&) {}) {
  Config config;
  for (const Config& one : published_configs())
    if (one.model_type == kind && config.model_type.empty()) config = one;
  prepare(config);
  const SmallModel small(config);
  const fs::path folder = small.scratch.path() / "folder";
  fs::create_directory(folder);
  open_checkpoint(small.path)->write_hugging_face(folder, StoredType::f32, 3);
  TensorFile file = open_tensor_file(folder);
  edit(file);
  return Checkpoint(std::move(file)).config();
}

Edit with(const std::string& key, const std::string& value) {
  return [=](TensorFile& file) { file.metadata()["config." + key] = value; };
}
Edit without(const std::string& key) {
  return [=](TensorFile& file) { file.metadata().erase("config." + key); };
}
Edit with_list(const std::string& key, const std::vector<std::string>& values) {
  return [=](TensorFile& file) { file.lists()["config." + key] = values; };
}

TEST(HuggingFaceConfig, AConvolutionHasATap) {
  for (const char* const kind : {"qwen3_5", "qwen3_5_moe", "qwen3_next", "olmo_hybrid"})
    for (const char* const taps : {"0", "-1"})
      EXPECT_FAULT(config_of(kind, with("linear_conv_kernel_dim", taps)), Fault::file,
                   "linear_conv_kernel_dim: expected at least 1");
}

// transformers ties a head only where the file has none.
TEST(HuggingFaceConfig, AHeadThatIsThereIsUsed) {
  const auto untie = [](Config& c) { c.tied = false; };
  for (const char* const kind : {"qwen3_5", "olmo_hybrid", "gated_deltanet", "kimi_linear"})
    EXPECT_FALSE(config_of(kind, with("tie_word_embeddings", "true"), untie).tied) << kind;
  const auto tie = [](Config& c) { c.tied = true; };
  EXPECT_TRUE(config_of("qwen3_5", [](TensorFile&) {}, tie).tied);
  EXPECT_FAULT(config_of("qwen3_5", with("tie_word_embeddings", "false"), tie), Fault::file,
               "expected the tensor lm_head.weight");
}

TEST(HuggingFaceConfig, SeveralDescriptionsOfAttentionAreNotTakenForOne) {
  Config hybrid;
  for (const Config& one : published_configs())
    if (one.model_type == "gated_deltanet" && one.mixers[2] == Mixer::attention) hybrid = one;
  const SmallModel small(hybrid);
  const fs::path folder = small.scratch.path() / "folder";
  fs::create_directory(folder);
  open_checkpoint(small.path)->write_hugging_face(folder, StoredType::f32, 3);
  const std::string json = read_file(folder / "config.json");
  const size_t begin = json.find('{', json.find("\"attn\"")), end = json.find('}', begin) + 1;
  const std::string description = json.substr(begin, end - begin);
  const auto with_attention = [&](const std::string& text) {
    replace_file(folder / "config.json", json.substr(0, begin) + text + json.substr(end));
    return Checkpoint(open_tensor_file(folder)).config();
  };
  EXPECT_EQ(with_attention("[" + description + "]").heads, hybrid.heads);
  EXPECT_FAULT(with_attention("[" + description + "," + description + "]"), Fault::file,
               "attn.layers: expected a whole number, found 'several lists'");
  EXPECT_FAULT(with_attention(R"([{"layers":[2],"num_heads":6},{"num_heads":3}])"), Fault::file,
               "attn.num_heads: expected a whole number, found 'several values'");
}

TEST(HuggingFaceConfig, AVisionModelTiesAsItsOuterConfigSays) {
  const auto nested = [](const char* outer, const char* inner) {
    return [=](TensorFile& file) {
      Metadata kept;
      std::swap(kept, file.metadata());
      auto lists = file.lists();
      file.lists().clear();
      const auto inside = [](const std::string& key) {
        return "config.text_config" + key.substr(key.find('.'));
      };
      for (const auto& [key, value] : kept)
        if (key.starts_with("config.")) file.metadata()[inside(key)] = value;
      for (const auto& [key, value] : lists) file.lists()[inside(key)] = value;
      file.metadata()["config.text_config.tie_word_embeddings"] = inner;
      file.metadata()["config.tie_word_embeddings"] = outer;
      file.metadata()["config.model_type"] = "qwen3_5";
    };
  };
  const auto tie = [](Config& c) { c.tied = true; };
  EXPECT_TRUE(config_of("qwen3_5", nested("true", "false"), tie).tied);
  EXPECT_FAULT(config_of("qwen3_5", nested("false", "true"), tie), Fault::file,
               "expected the tensor lm_head.weight");
}

TEST(HuggingFaceConfig, RotaryPositionsHaveTheLibrarysDefault) {
  for (const char* const kind : {"qwen3_5", "qwen3_5_moe", "qwen3_next", "olmo_hybrid"})
    EXPECT_EQ(config_of(kind, without("rope_parameters.rope_theta")).theta, 10000) << kind;
  const Config none = config_of("olmo_hybrid", with("rope_parameters.rope_theta", "null"));
  EXPECT_EQ(none.rotary, 0);
  const Config absent = config_of("olmo_hybrid", without("rope_parameters.rope_theta"));
  EXPECT_EQ(absent.rotary, absent.head_size);
}

TEST(HuggingFaceConfig, AModelWithoutRotaryPositionsIsWrittenAsSuch) {
  const auto unrotated = [](Config& c) { c.rotary = 0, c.theta = 0; };
  EXPECT_EQ(config_of("olmo_hybrid", [](TensorFile&) {}, unrotated).rotary, 0);
}

TEST(HuggingFaceConfig, ExpertsOfQwen35AreThoseOfTheLibrary) {
  const Config c = config_of("qwen3_5_moe", [](TensorFile& file) {
    with("norm_topk_prob", "false")(file);
    with("decoder_sparse_step", "2")(file);
    with_list("mlp_only_layers", {"1"})(file);
  });
  EXPECT_TRUE(c.renormalize);
  EXPECT_EQ(c.experts, std::vector<bool>(4, true));
  const auto many = [](Config& of) { of.expert_count = 12, of.experts_used = 3; };
  EXPECT_EQ(config_of("qwen3_5_moe", without("num_experts_per_tok"), many).experts_used, 8);
  EXPECT_EQ(config_of("qwen3_next", without("num_experts_per_tok"), many).experts_used, 10);
  EXPECT_FALSE(config_of("qwen3_next", with("norm_topk_prob", "false")).renormalize);
}

TEST(HuggingFaceConfig, ABetaOfTwoWithoutAMatrixIsRefused) {
  EXPECT_FAULT(config_of("delta_net", with("allow_neg_eigval", "true")), Fault::file,
               "allow_neg_eigval: expected false");
}

TEST(HuggingFaceConfig, ListsAreListsOfTheRightLength) {
  const auto scalar = [](TensorFile& file) {
    file.lists().erase("config.layer_types");
    with("layer_types", "3")(file);
  };
  EXPECT_FAULT(config_of("qwen3_5", scalar), Fault::file, "layer_types: expected a list, found '3'");
  EXPECT_FAULT(config_of("qwen3_5", with_list("layer_types", {})), Fault::file,
               "layer_types: expected 4 entries, found 0");
}

TEST(HuggingFaceConfig, EachLayerOfKimiIsInOneList) {
  const std::string all = "linear_attn_config.full_attn_layers";
  EXPECT_FAULT(config_of("kimi_linear", with_list(all, {"3", "4"})), Fault::file,
               "expected layer 3 in one of both, found it 2 times");
  EXPECT_FAULT(config_of("kimi_linear", with_list(all, {})), Fault::file,
               "expected layer 4 in one of both, found it 0 times");
}

// Which transformers writes: kinds of all layers, and a dense network that is called like experts.
TEST(HuggingFaceConfig, KimiAsTransformersSavesItIsRead) {
  const auto saved = [](TensorFile& file) {
    with_list("layer_types", {"linear_attention", "linear_attention", "linear_attention",
                              "full_attention"})(file);
    with_list("mlp_layer_types", {"dense", "sparse", "sparse", "sparse"})(file);
    without("first_k_dense_replace")(file);
    with("attention_bias", "false")(file);
    with("qk_head_dim", "14")(file);
  };
  const Config c = config_of("kimi_linear", saved);
  EXPECT_EQ(c.experts, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(c.mixers[3], Mixer::latent);
  EXPECT_FAULT(config_of("kimi_linear", with_list("mlp_layer_types", {"dense"})), Fault::file,
               "mlp_layer_types: expected 4 entries, found 1");
}

}  // namespace
}  // namespace deltasane::gated_delta
