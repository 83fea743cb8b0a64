#include "model/rwkv7/checkpoint/write.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/tokenizer/gguf_tokenizer_write.h"
#include "model/rwkv7/checkpoint/fixture.h"
#include "model/rwkv7/checkpoint/norms.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::SmallModel;

const Metadata sane_metadata{{"sane.alpha", "2.5"}, {"sane.chunk", "16"}};

TEST(Rwkv7Write, SafetensorsComeBackBitEqual) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model";
  for (const Rwkv7Shape& shape : {test::small_shape(), test::small_sane_shape()}) {
    const SmallModel model(shape);
    for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
      write_rwkv7_safetensors(path, model, type, shape.sane ? sane_metadata : Metadata{});
      const Rwkv7Checkpoint checkpoint(path);
      EXPECT_EQ(checkpoint.validate(), shape);
      EXPECT_EQ(checkpoint.sane().has_value(), shape.sane);
      test::expect_same(checkpoint, model);
      EXPECT_EQ(checkpoint.type("blocks.1.att.w0"), type);
      EXPECT_EQ(checkpoint.file().find("blocks.1.att.w0")->shape, (Shape{1, 1, 64}));
      EXPECT_TRUE(checkpoint.in_place("blocks.1.att.w1"));
    }
  }
}

TEST(Rwkv7Write, GgufComesBackBitEqualWhereTheTypeAllows) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model";
  for (const Rwkv7Shape& shape : {test::small_shape(), test::small_sane_shape()}) {
    const SmallModel model(shape);
    for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
      write_rwkv7_gguf(path, model,
                       {.types = type, .metadata = shape.sane ? sane_metadata : Metadata{}});
      const Rwkv7Checkpoint checkpoint(path);
      EXPECT_EQ(checkpoint.file().format(), "gguf");
      EXPECT_EQ(checkpoint.validate(), shape);
      if (shape.sane) {
        EXPECT_EQ(checkpoint.sane(), (SaneSettings{2.5, 16}));
      }
      test::expect_same(checkpoint, model);
    }
  }
}

TEST(Rwkv7Write, NormsComeBack) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model";
  const SmallModel model(test::small_shape());
  const Rwkv7Norms norms{1e-6f, 1e-4f, kernel::rsqrt_key_norm};
  for (const Rwkv7Norms& one : {Rwkv7Norms{}, norms}) {
    write_rwkv7_safetensors(path, model, StoredType::f32, rwkv7_norm_metadata(one));
    EXPECT_EQ(Rwkv7Checkpoint(path).validate().norms, one);
    write_rwkv7_gguf(path, model, {.types = StoredType::f32, .metadata = rwkv7_norm_metadata(one)});
    EXPECT_EQ(Rwkv7Checkpoint(path).validate().norms, one);
  }
  write_rwkv7_safetensors(path, model, StoredType::f32, {{"rwkv7.key_norm", "l1"}});
  EXPECT_FAULT(Rwkv7Checkpoint(path).validate(), Fault::file,
               "rwkv7.key_norm: expected max(norm, 1e-12) or rsqrt(sum + 1e-6), found 'l1'");
}

TEST(Rwkv7Write, GgufKeepsTheRulesOfItsReaders) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model";
  const SmallModel model(test::small_shape());
  write_rwkv7_gguf(path, model,
                   {.types = StoredType::q8_0,
                    .tokenizer = gguf_rwkv_tokenizer({"<s>", "a"}, 40, "small"),
                    .metadata = {{"general.name", "small"}}});
  const Rwkv7Checkpoint checkpoint(path);
  const TensorFile& file = checkpoint.file();
  const auto type = [&](const char* name) { return file.find(name)->type; };
  EXPECT_EQ(type("token_embd.weight"), StoredType::q8_0);
  EXPECT_EQ(type("blk.1.time_mix_key.weight"), StoredType::q8_0);
  EXPECT_EQ(type("blk.1.time_mix_w1.weight"), StoredType::f32);
  EXPECT_EQ(type("blk.1.time_mix_w2.weight"), StoredType::f32);
  EXPECT_EQ(type("blk.1.time_mix_g1.weight"), StoredType::f16);
  EXPECT_EQ(type("blk.1.time_mix_w0.weight"), StoredType::f32);
  EXPECT_EQ(type("blk.1.time_mix_r_k.weight"), StoredType::f32);
  EXPECT_EQ(type("blk.1.channel_mix_lerp_k.weight"), StoredType::f32);
  EXPECT_EQ(type("blk.1.time_mix_lerp_fused.weight"), StoredType::f32);
  EXPECT_EQ(file.find("blk.1.time_mix_lerp_fused.weight")->shape, (Shape{6, 1, 1, 64}));
  EXPECT_EQ(file.find("blk.1.time_mix_w1.weight")->shape, (Shape{8, 64}));
  EXPECT_EQ(file.find("blk.1.time_mix_r_k.weight")->shape, (Shape{64}));
  EXPECT_EQ(file.find("blk.0.time_mix_v1.weight")->shape, (Shape{12, 64}));  // a copy of a1
  EXPECT_EQ(file.metadata().at("rwkv7.wkv.head_size"), "16");
  EXPECT_EQ(file.metadata().at("rwkv7.attention.gate_lora_rank"), "20");
  EXPECT_EQ(file.metadata().at("general.name"), "small");
  EXPECT_EQ(file.metadata().at("general.file_type"), "7");
  ASSERT_EQ(checkpoint.vocabulary()->size(), 40u);
  EXPECT_EQ((*checkpoint.vocabulary())[1], "a");
  EXPECT_EQ((*checkpoint.vocabulary())[39], "[PAD39]");
  const std::optional<StoredTensor> key = checkpoint.in_place("blocks.1.att.key.weight");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->type, StoredType::q8_0);
  const Tensor<float> back = checkpoint.read("blocks.1.att.key.weight");
  for (int64_t i = 0; i < back.elements(); ++i)
    EXPECT_NEAR(back[i], model.at("blocks.1.att.key.weight")[i], 2.0 / 127);
  EXPECT_EQ(checkpoint.read("blocks.2.att.g2")[3], model.at("blocks.2.att.g2")[3]);
}

TEST(Rwkv7Write, OneLayerHasNoValueResidual) {
  const test::Scratch scratch;
  Rwkv7Shape shape = test::small_shape();
  shape.layers = 1;
  shape.rank_v = 0;
  const SmallModel model(shape);
  write_rwkv7_gguf(scratch.path() / "g", model, {StoredType::f32});
  write_rwkv7_safetensors(scratch.path() / "s", model, StoredType::f32, {});
  for (const char* const name : {"g", "s"}) {
    const Rwkv7Checkpoint checkpoint(scratch.path() / name);
    EXPECT_EQ(checkpoint.validate(), shape);
    test::expect_same(checkpoint, model);
  }
}

TEST(Rwkv7Write, GoesFromOneFormatToTheOther) {
  const test::Scratch scratch;
  const SmallModel model(test::small_shape());
  write_rwkv7_gguf(scratch.path() / "a", model,
                   {.types = StoredType::bf16, .tokenizer = gguf_rwkv_tokenizer({"<s>"}, 40, "a")});
  const Rwkv7Checkpoint first(scratch.path() / "a");
  write_rwkv7_safetensors(scratch.path() / "b", first, StoredType::f16, {});
  const Rwkv7Checkpoint second(scratch.path() / "b");
  write_rwkv7_gguf(scratch.path() / "c", second,
                   {.types = StoredType::bf16,
                    .tokenizer = gguf_rwkv_tokenizer(*first.vocabulary(), 40, "c"),
                    .metadata = first.metadata()});
  test::expect_same(Rwkv7Checkpoint(scratch.path() / "c"), model);
  EXPECT_EQ(read_file(scratch.path() / "a"), read_file(scratch.path() / "c"));
}

TEST(Rwkv7Write, RefusesAndLeavesNothingBehind) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model";
  SmallModel model(test::small_shape());
  EXPECT_FAULT(write_rwkv7_safetensors(path, model, StoredType::q8_0, {}), Fault::argument, "q8_0");
  EXPECT_FAULT(write_rwkv7_gguf(path, model, {StoredType::i32}), Fault::argument, "i32");
  EXPECT_FAULT(write_rwkv7_safetensors(path, model, StoredType::f32, sane_metadata), Fault::file,
               "found none");
  EXPECT_FAULT(
      write_rwkv7_gguf(path, SmallModel(test::small_sane_shape()), {StoredType::f32}),
      Fault::file, "sane.alpha");
  EXPECT_FAULT(gguf_rwkv_tokenizer(std::vector<std::string>(41), 40, "out"),
               Fault::argument, "at most 40");
  model.tensors["blocks.2.ffn.value.weight"][9] = 1e6f;
  EXPECT_FAULT(write_rwkv7_safetensors(path, model, StoredType::f16, {}), Fault::overflow,
               "blocks.2.ffn.value.weight");
  model.tensors.erase("blocks.1.att.a2");
  EXPECT_FAULT(write_rwkv7_gguf(path, model, {StoredType::f32}), Fault::file,
               "blocks.1.att.a2");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace deltasane
