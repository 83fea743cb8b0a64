#include "model/rwkv7/publish/publish.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/rwkv7/checkpoint/fixture.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::SmallModel;

constexpr StoredType types[] = {StoredType::f32, StoredType::f16, StoredType::bf16};

std::optional<SaneSettings> settings_of(const Rwkv7Shape& shape) {
  if (!shape.sane) return std::nullopt;
  return SaneSettings{0.1, 24};
}

TEST(Rwkv7Publish, PthComesBackBitEqual) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.pth";
  for (const Rwkv7Shape& shape : {test::small_shape(), test::small_sane_shape()}) {
    const SmallModel model(shape);
    for (const StoredType type : types) {
      write_rwkv7_pth(path, {model, type, {}, settings_of(shape)});
      const Rwkv7Checkpoint found(path);
      EXPECT_EQ(found.file().format(), "pth");
      EXPECT_EQ(found.validate(), shape);
      EXPECT_EQ(found.sane(), settings_of(shape));
      EXPECT_EQ(found.type("blocks.1.att.w0"), type);
      test::expect_same(found, model);
      // As official files: spread vectors, and what nobody reads in block 0.
      EXPECT_EQ(found.file().find("blocks.1.att.w0")->shape, (Shape{1, 1, shape.channels}));
      EXPECT_EQ(found.file().find("blocks.0.att.v1")->shape, (Shape{shape.channels, shape.rank_v}));
      EXPECT_EQ(found.file().find("blocks.0.att.v0")->shape, (Shape{1, 1, shape.channels}));
    }
  }
}

TEST(Rwkv7Publish, PthStatesNoOtherNorms) {
  const test::Scratch scratch;
  const SmallModel model(test::small_shape());
  EXPECT_FAULT(write_rwkv7_pth(scratch.path() / "a.pth",
                               {model, StoredType::f32, {1e-6f, 64e-5f, {}}, std::nullopt}),
               Fault::usage, "expected a model with the official norms");
  EXPECT_FAULT(
      write_rwkv7_pth(scratch.path() / "a.pth", {model, StoredType::q8_0, {}, std::nullopt}),
      Fault::usage, "expected f32, f16 or bf16");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(Rwkv7Publish, HuggingFaceFolderComesBackBitEqual) {
  const test::Scratch scratch;
  const Rwkv7Norms fla{1e-5f, float(16 * 1e-5), kernel::rsqrt_key_norm};
  for (Rwkv7Shape shape : {test::small_shape(), test::small_sane_shape()})
    for (const Rwkv7Norms& norms : {Rwkv7Norms{}, fla, Rwkv7Norms{1e-6f, 3e-4f, {}}}) {
      const SmallModel model(shape);
      shape.norms = norms;
      for (const StoredType type : types) {
        write_rwkv7_hugging_face(scratch.path(), {model, type, norms, settings_of(shape)}, 0);
        const Rwkv7Checkpoint found(scratch.path());
        EXPECT_EQ(found.file().format(), "hugging face folder");
        EXPECT_EQ(found.validate(), shape);
        EXPECT_EQ(found.sane(), settings_of(shape));
        EXPECT_EQ(found.type("blocks.1.att.w0"), type);
        test::expect_same(found, model);
      }
    }
}

TEST(Rwkv7Publish, HuggingFaceNamesAreThoseOfFla) {
  const test::Scratch scratch;
  const SmallModel model(test::small_shape());
  write_rwkv7_hugging_face(scratch.path(), {model, StoredType::f32, {}, std::nullopt}, {});
  const TensorFile found = Rwkv7Checkpoint(scratch.path()).file();
  const test::NamedTensors expected = test::as_fla(model);
  EXPECT_EQ(found.tensors().size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_NE(found.find(name), nullptr) << name;
    EXPECT_EQ(found.find(name)->shape, tensor.shape()) << name;
  }
  const auto config = nlohmann::json::parse(read_file(scratch.path() / "config.json"));
  EXPECT_EQ(config["hidden_size"], 64);
  EXPECT_TRUE(config["eos_token_id"].is_null());
  EXPECT_FALSE(config.contains("sane"));
}

// As a program leaves it that does not know SANE, and saves what it loaded.
TEST(Rwkv7Publish, SettingsWithoutTensorsAreRefused) {
  const test::Scratch scratch, other;
  const SmallModel sane(test::small_sane_shape()), plain(test::small_shape());
  write_rwkv7_hugging_face(scratch.path(), {sane, StoredType::f32, {}, SaneSettings{3, 16}}, 0);
  write_rwkv7_hugging_face(other.path(), {plain, StoredType::f32, {}, std::nullopt}, 0);
  fs::copy(other.path() / "model.safetensors", scratch.path() / "model.safetensors",
           fs::copy_options::overwrite_existing);
  EXPECT_FAULT(Rwkv7Checkpoint{scratch.path()}, Fault::file, "expected the SANE tensors with it");
}

// A settings tensor of another type or shape, as somebody's program may have made it.
TEST(Rwkv7Publish, SettingsAreReadFromTensorsOrRefused) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  const SmallModel model(test::small_sane_shape());
  const auto write = [&](const Shape& shape) {
    test::NamedTensors all;
    for (const std::string& name : model.names()) all.emplace_back(name, model.read(name));
    for (const float value : {3.0f, 16.0f}) {
      Tensor<float> one(shape);
      one.fill(value);
      all.emplace_back(value == 3 ? "sane.alpha" : "sane.chunk", std::move(one));
    }
    test::write_named(path, all);
  };
  write({1});
  EXPECT_EQ(Rwkv7Checkpoint(path).sane(), (SaneSettings{3, 16}));
  write({2});
  EXPECT_FAULT(Rwkv7Checkpoint{path}, Fault::file, "sane.alpha: expected one number");
}

}  // namespace
}  // namespace deltasane
