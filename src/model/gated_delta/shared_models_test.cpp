// Models that others made: logits and states of transformers, flash-linear-attention and llama.cpp's
// converter, and logits with SANE of rwkv_ops or of a definition in double.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "format/gguf/gguf.h"
#include "format/pth/zip.h"
#include "model/gated_delta/shared_fixture.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

TEST_P(SharedModels, LogitsAreThePeersHoweverTheyAreCut) {
  const auto model = open();
  const std::vector<float> expected = numbers(open_npy(folder / "logits.npy"));
  for (const std::vector<int64_t>& calls :
       {std::vector<int64_t>{int64_t(tokens.size())}, {1}, {3, 1, 40, 16, 21}}) {
    SequenceState state = model->fresh_state();
    EXPECT_LE(largest_difference(logits(*model, state, calls), expected),
              allowed * deviation(expected));
  }
}

TEST_P(SharedModels, LogitsWithSaneAreThePeers) {
  const auto settings = nlohmann::json::parse(read_file(folder / "sane.json"));
  const auto model = open({.alpha = settings["alpha"].get<double>()});
  const std::vector<float> expected = numbers(open_npy(folder / "logits_sane.npy"));
  const std::vector<float> without = numbers(open_npy(folder / "logits.npy"));
  EXPECT_GT(largest_difference(without, expected), 0.01);
  for (const std::vector<int64_t>& calls :
       {std::vector<int64_t>{int64_t(tokens.size())}, {5, 30, 1}}) {
    SequenceState state = model->fresh_state();
    EXPECT_LE(largest_difference(logits(*model, state, calls), expected),
              allowed * deviation(expected));
  }
}

class SharedFolders : public SharedModels {};

TEST_P(SharedFolders, StatesAreThePeers) {
  const auto model = open();
  SequenceState state = model->fresh_state();
  logits(*model, state, {int64_t(tokens.size())});
  const MappedFile file(folder / "states.npz");
  std::map<std::string, NpyArray> peers;
  for (const auto& entry : read_zip(file.bytes(), "states"))
    peers.emplace(entry.name, read_npy(entry.bytes, entry.name));
  // Most peers have the key first.
  const std::string name = GetParam();
  const bool key_first = name != "gated_deltanet" && name != "kda";
  size_t compared = 0;
  for (const StatePart& part : state.layout().parts()) {
    const std::string layer = cat("layer", part.layer, ".");
    const std::span<const float> found = state.of(part);
    std::vector<float> ours, theirs;
    if (part.kind == StateKind::memory) {
      const NpyArray& peer = peers.at(layer + "state.npy");
      theirs = numbers(peer);
      const int64_t values = part.shape[1], keys = part.shape[2];
      for (int64_t i = 0; i < part.floats(); ++i) {
        const int64_t h = i / (values * keys), rest = i % (values * keys);
        const int64_t v = key_first ? rest % values : rest / keys;
        const int64_t k = key_first ? rest / values : rest % keys;
        ours.push_back(found[size_t((h * values + v) * keys + k)]);
      }
    } else if (part.kind == StateKind::convolution) {
      for (const char* const which : {"conv.npy", "conv_q.npy", "conv_k.npy", "conv_v.npy"})
        if (const auto peer = peers.find(layer + which); peer != peers.end())
          for (const float x : numbers(peer->second)) theirs.push_back(x);
      // (channel, tap) of one tap more than needed
      const int64_t taps = part.shape[0], channels = part.shape[1];
      std::vector<float> needed;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          ours.push_back(found[size_t(tap * channels + c)]);
          needed.push_back(theirs[size_t(c * (taps + 1) + tap + 1)]);
        }
      theirs = needed;
    } else {
      EXPECT_EQ(found.size(), tokens.size() * size_t(part.floats()));
      continue;
    }
    EXPECT_LE(largest_difference(ours, theirs), allowed * deviation(theirs)) << layer << part.name;
    ++compared;
  }
  EXPECT_GE(compared, 6u);
}

// The same matrices, in another order, with other names.
class SharedGgufs : public SharedModels {
 protected:
  // The folder of the same model.
  fs::path beside() const {
    const std::map<std::string, std::string> names{{"gguf_qwen35", "qwen3_5"},
                                                   {"gguf_qwen35moe", "qwen3_5_moe"},
                                                   {"gguf_qwen3next", "qwen3_next"},
                                                   {"gguf_kimi_linear", "kimi_linear"}};
    return folder.parent_path() / names.at(GetParam());
  }
};

TEST_P(SharedGgufs, AreTheFoldersBesideThemBitForBit) {
  const auto gguf = open_checkpoint(path());
  const auto other = open_checkpoint(beside());
  ASSERT_EQ(gguf->names(), other->names());
  for (const std::string& name : gguf->names()) {
    const Tensor<float> a = gguf->read(name), b = other->read(name);
    ASSERT_EQ(a.shape(), b.shape()) << name;
    if (name.ends_with("decay_log_rate"))  // one of them was rounded as -exp(A_log)
      EXPECT_LE(largest_difference(a.span(), b.span()), 1e-6 * std::abs(double(b[0])) + 1e-6) << name;
    else
      EXPECT_TRUE(std::ranges::equal(a.span(), b.span())) << name;
  }
}

// What llama.cpp's converter made of the folder, tensor by tensor.
TEST_P(SharedGgufs, AreWhatIsWrittenOfTheirFolders) {
  test::Scratch scratch;
  const fs::path written = scratch.path() / "model.gguf";
  open_checkpoint(beside())->write_gguf(written, {StoredType::f32});
  const TensorFile ours = open_gguf(written), theirs = open_gguf(path());
  ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const StoredTensor& tensor : theirs.tensors()) {
    const StoredTensor* const found = ours.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    ASSERT_EQ(found->shape, tensor.shape) << tensor.name;
    const Tensor<float> a = ours.read(*found), b = theirs.read(tensor);
    for (int64_t i = 0; i < a.elements(); ++i)  // -exp(A_log), in another program's arithmetic
      ASSERT_NEAR(a[i], b[i], tensor.name.ends_with("ssm_a") ? 1e-6 * std::abs(double(b[i])) : 0.0)
          << tensor.name;
  }
}

TEST_P(SharedModels, ConvertedToOneFileIsTheSame) {
  test::Scratch scratch;
  const fs::path copy = scratch.path() / "copy.safetensors";
  const auto checkpoint = open_checkpoint(path());
  checkpoint->write_safetensors(copy, StoredType::f32, checkpoint->metadata());
  const auto model = open(), again = open_model(copy, {.weights = kernel::WeightType::f32});
  SequenceState one = model->fresh_state(), other = again->fresh_state();
  EXPECT_EQ(logits(*model, one, {50}), logits(*again, other, {50}));
}

constexpr const char* folders[] = {"delta_net",   "gated_deltanet",   "kda",
                                   "qwen3_5",     "qwen3_5_vl",       "qwen3_5_moe",
                                   "qwen3_next",  "olmo_hybrid",      "olmo_hybrid_rope",
                                   "kimi_linear"};
constexpr const char* ggufs[] = {"gguf_qwen35", "gguf_qwen35moe", "gguf_qwen3next",
                                 "gguf_kimi_linear"};
const auto name_of_test = [](const auto& one) { return std::string(one.param); };
INSTANTIATE_TEST_SUITE_P(Folders, SharedModels, testing::ValuesIn(folders), name_of_test);
INSTANTIATE_TEST_SUITE_P(Ggufs, SharedModels, testing::ValuesIn(ggufs), name_of_test);
INSTANTIATE_TEST_SUITE_P(Models, SharedFolders, testing::ValuesIn(folders), name_of_test);
INSTANTIATE_TEST_SUITE_P(Models, SharedGgufs, testing::ValuesIn(ggufs), name_of_test);

// A folder with changed settings.
struct SharedConfigs : testing::Test {
  test::Scratch scratch;
  void expect_refused(const std::string& model, const std::string& key, const nlohmann::json& value,
                      std::string_view message) {
    const fs::path from = fs::path(DELTASANE_SHARED) / "data/family" / model;
    if (!fs::exists(from)) GTEST_SKIP() << from << " is not here";
    const fs::path to = scratch.path() / model;
    fs::create_directories(to);
    fs::copy_file(from / "model.safetensors", to / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    auto config = nlohmann::json::parse(read_file(from / "config.json"));
    config[nlohmann::json::json_pointer(key)] = value;
    replace_file(to / "config.json", config.dump());
    EXPECT_FAULT(open_checkpoint(to), Fault::file, message);
  }
};

TEST_F(SharedConfigs, WhatChangesResultsIsUsedOrRefusedByName) {
  expect_refused("qwen3_5", "/new_gate", true, "'config.new_gate' = 'true': expected no setting");
  expect_refused("qwen3_5", "/rope_parameters/rope_type", "yarn", "rope_parameters.rope_type");
  expect_refused("qwen3_5_vl", "/text_config/attention_bias", true, "attention_bias");
  expect_refused("qwen3_5", "/hidden_size", 97, "expected 320 rows of 97, found shape (320, 96)");
  expect_refused("qwen3_5", "/quantization_config", {{"bits", 4}}, "quantization_config.bits");
  expect_refused("delta_net", "/qk_norm", "sum", "config.qk_norm: expected l2");
  expect_refused("delta_net", "/attnres_block_size", 4, "attnres_block_size: expected null");
  expect_refused("kda", "/lower_bound", 1.0, "lower_bound: expected a number below 0");
  expect_refused("gated_deltanet", "/num_v_heads", 4, "value heads: expected a multiple of 3");
  expect_refused("kimi_linear", "/num_expert_group", 2, "num_expert_group: expected 1");
  expect_refused("kimi_linear", "/mla_use_nope", false, "mla_use_nope: expected true");
  expect_refused("olmo_hybrid", "/layer_types/0", "sliding", "layer_types: expected");
}

}  // namespace
}  // namespace deltasane::gated_delta
