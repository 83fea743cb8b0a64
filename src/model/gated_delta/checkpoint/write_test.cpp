// Folders and files for other programs are read back as the same model.
#include <gtest/gtest.h>

#include <cmath>

#include "format/tokenizer/find_tokenizer.h"
#include "model/gated_delta/checkpoint/fixture_published.h"
#include "model/gated_delta/fixture.h"
#include "support/errors.h"

namespace deltasane::gated_delta {
namespace {

TEST(WriteHuggingFace, AFolderIsReadBackAsTheSameModel) {
  for (const Config& config : published_configs()) {
    const SmallModel small(config);
    const auto checkpoint = open_checkpoint(small.path);
    const fs::path folder = small.scratch.path() / "folder";
    fs::create_directory(folder);
    const std::string notes = checkpoint->write_hugging_face(folder, StoredType::f32, 3);
    EXPECT_NE(notes.find("from_pretrained(\"PATH\")"), std::string::npos);
    const auto again = open_checkpoint(folder);
    EXPECT_EQ(own_metadata(dynamic_cast<const Checkpoint&>(*again).config(), {}),
              own_metadata(config, {}))
        << config.model_type;
    ASSERT_EQ(again->names(), checkpoint->names()) << config.model_type;
    for (const std::string& name : checkpoint->names()) {
      const Tensor<float> a = checkpoint->read(name), b = again->read(name);
      ASSERT_EQ(a.shape(), b.shape()) << name;
      for (int64_t i = 0; i < a.elements(); ++i)  // 1 + (w - 1) may round
        ASSERT_NEAR(a[i], b[i], name.ends_with("norm.weight") ? 2e-7 : 0.0)
            << config.model_type << " " << name;
    }
  }
}

TEST(WriteGguf, AFileIsReadBackAsTheSameModel) {
  int written = 0;
  for (Config config : published_configs()) {
    if (!config.model_type.starts_with("qwen") && config.model_type != "kimi_linear") continue;
    config.renormalize = true;
    if (config.model_type == "kimi_linear") {  // one number of heads, and ranks of their size
      config.heads = config.key_heads = config.value_heads;
      config.decay_rank = config.gate_rank = config.key_size;
    }
    const SmallModel small(config);
    const auto checkpoint = open_checkpoint(small.path);
    const fs::path path = small.scratch.path() / "model.gguf", copy = small.scratch.path() / "c.gguf";
    checkpoint->write_gguf(path, {StoredType::f32});
    const auto again = open_checkpoint(path);
    EXPECT_EQ(own_metadata(dynamic_cast<const Checkpoint&>(*again).config(), {}),
              own_metadata(config, {}))
        << config.model_type;
    ASSERT_EQ(again->names(), checkpoint->names()) << config.model_type;
    for (const std::string& name : checkpoint->names()) {
      const Tensor<float> a = checkpoint->read(name), b = again->read(name);
      ASSERT_EQ(a.shape(), b.shape()) << name;
      for (int64_t i = 0; i < a.elements(); ++i)  // log(exp(A_log)) may round
        ASSERT_NEAR(a[i], b[i], name.ends_with("decay_log_rate") ? 2e-6 : 0.0)
            << config.model_type << " " << name;
    }
    // Once more, quantized where rows allow it, and then as it is.
    again->write_gguf(path.string() + "q", {StoredType::q4_0});
    const auto rounded = open_checkpoint(path.string() + "q");
    EXPECT_EQ(rounded->type("layers.0.mixer.beta.weight"), StoredType::f16);
    rounded->write_gguf(copy, {StoredType::q4_0, GgufRequest::Keep::stored_types});
    EXPECT_EQ(read_file(copy), read_file(path.string() + "q"));
    ++written;
  }
  EXPECT_EQ(written, 4);
}

TEST(WriteGguf, WhatItCannotStateIsRefused) {
  const std::vector<Config> all = published_configs();
  const SmallModel other(all[0]), next(all[7]), sane(all[3], SaneSettings{1, 16});
  const fs::path path = other.scratch.path() / "model.gguf";
  EXPECT_FAULT(open_checkpoint(other.path)->write_gguf(path, {StoredType::f32}), Fault::usage,
               "which llama.cpp does not have");
  EXPECT_FAULT(open_checkpoint(next.path)->write_gguf(path, {StoredType::f32}), Fault::usage,
               "renormalize: expected");
  EXPECT_FAULT(open_checkpoint(sane.path)->write_gguf(path, {StoredType::f32}), Fault::usage,
               "expected a model without SANE's w_tau");
  EXPECT_FALSE(fs::exists(path));
}

// Trained SANE is in the folder, and makes the same logits; without its settings it is refused.
TEST(WriteHuggingFace, SaneIsReadBack) {
  for (const Config& config : published_configs()) {
    const SmallModel small(config, SaneSettings{0.5, 3});
    const fs::path folder = small.scratch.path() / "folder";
    fs::create_directory(folder);
    const std::string notes =
        open_checkpoint(small.path)->write_hugging_face(folder, StoredType::f32, 3);
    EXPECT_NE(notes.find("do not know SANE"), std::string::npos);
    const auto again = open_checkpoint(folder);
    ASSERT_TRUE(again->sane()) << config.model_type;
    EXPECT_EQ(again->sane()->alpha, 0.5);
    EXPECT_EQ(again->sane()->chunk, 3);
    for (const std::string& name : again->names())
      if (name.ends_with("w_tau")) {
        const Tensor<float> a = again->read(name), b = small.source.read(name);
        EXPECT_TRUE(std::ranges::equal(a.span(), b.span())) << name;
      }
    again->write_safetensors(small.scratch.path() / "back.safetensors", StoredType::f32,
                             again->metadata());
    EXPECT_TRUE(open_checkpoint(small.scratch.path() / "back.safetensors")->sane());
    std::string json = read_file(folder / "config.json");
    const size_t at = json.find("\"alpha\": 0.5");
    ASSERT_NE(at, json.npos);
    replace_file(folder / "config.json", json.replace(at, 7, "\"other\""));
    EXPECT_FAULT(open_checkpoint(folder), Fault::file, "expected the metadata sane.alpha");
  }
}

TEST(WriteHuggingFace, WhatTheLibrariesDoNotHaveIsRefused) {
  const SmallModel other(small_configs()[0]);
  const auto unknown = open_checkpoint(other.path);
  EXPECT_FAULT(unknown->write_hugging_face(other.scratch.path(), StoredType::f32, {}),
               Fault::usage, "expected a kind of model that the libraries have, found small");
  EXPECT_FAULT(unknown->write_hugging_face(other.scratch.path(), StoredType::q8_0, {}),
               Fault::usage, "expected f32, f16 or bf16");
  Config moe = published_configs()[6];
  moe.experts[1] = false;
  const SmallModel dense(moe);
  EXPECT_FAULT(
      open_checkpoint(dense.path)->write_hugging_face(dense.scratch.path(), StoredType::f32, {}),
      Fault::usage, "layer 1: expected experts");
  moe.experts[1] = true, moe.renormalize = false;
  const SmallModel unscaled(moe);
  EXPECT_FAULT(open_checkpoint(unscaled.path)
                   ->write_hugging_face(unscaled.scratch.path(), StoredType::f32, {}),
               Fault::usage, "renormalize: expected true");
  EXPECT_FALSE(fs::exists(dense.scratch.path() / "config.json"));
}

// Of one seed, whatever the file; with a tokenizer where there is room for one.
TEST(WriteRandom, EveryKindOfFileIsTheSameModel) {
  Config config = config_for({4, 48, 8, 300, "qwen3_5"});
  config.feed_forward = 20;
  const test::Scratch scratch;
  const RandomTensors source(config, 7);
  for (const char* const name : {"model.safetensors", "model.gguf", "folder/"}) {
    write_random(config, 7, scratch.path() / name, StoredType::f32);
    const auto written = open_checkpoint(scratch.path() / name);
    ASSERT_EQ(written->names(), source.names()) << name;
    for (const std::string& tensor : source.names()) {
      Tensor<float> a = written->read(tensor), b = source.read(tensor);
      if (tensor.ends_with("log_rate"))  // GGUF has its exponential
        for (const auto one : {&a, &b})
          for (float& value : one->span()) value = std::exp(value);
      for (int64_t i = 0; i < b.elements(); ++i) EXPECT_FLOAT_EQ(a[i], b[i]) << name << tensor;
    }
    const auto tokenizer = find_tokenizer(written->file(), config.vocabulary);
    ASSERT_EQ(tokenizer == nullptr, name == std::string_view("model.safetensors")) << name;
    if (!tokenizer) continue;
    EXPECT_EQ(tokenizer->encode("a t!").size(), 3u);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("e\u00E9 \n t")), "e\u00E9 \n t");
    EXPECT_EQ(tokenizer->end_of_document(), 257);
  }
  EXPECT_FAULT(write_random(config, 7, scratch.path() / "model.pth", StoredType::f32), Fault::usage,
               "model.pth: expected a name that ends in .safetensors, .gguf or /");
}

}  // namespace
}  // namespace deltasane::gated_delta
