#include "model/rwkv7/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "format/pth/fixture_pth.h"
#include "model/rwkv7/checkpoint/fixture.h"
#include "format/gguf/gguf.h"
#include "format/open.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::NamedTensors;
using test::SmallModel;

class Checkpoint : public ::testing::Test {
 protected:
  Rwkv7Checkpoint open(const NamedTensors& tensors, const Metadata& metadata = {}) {
    test::write_named(path_, tensors, metadata);
    return Rwkv7Checkpoint(path_);
  }
  NamedTensors official() {
    NamedTensors out;
    for (const auto& [name, tensor] : model_.tensors) out.emplace_back(name, tensor.clone());
    return out;
  }
  test::Scratch scratch_;
  fs::path path_ = scratch_.path() / "weights";
  SmallModel model_{test::small_shape()};
};

TEST_F(Checkpoint, ReadsTheNamesOfOthers) {
  for (const NamedTensors& tensors : {official(), test::as_fla(model_), test::as_web_rwkv(model_),
                                      test::as_vllm(model_), test::as_smerkyg(model_)}) {
    const Rwkv7Checkpoint checkpoint = open(tensors);
    test::expect_same(checkpoint, model_);
    EXPECT_EQ(checkpoint.validate(), test::small_shape());
    EXPECT_FALSE(checkpoint.sane());
  }
}

TEST_F(Checkpoint, ReadsTheSixShiftsOfOldFlaFiles) {
  NamedTensors tensors;
  for (auto& [name, tensor] : test::as_fla(model_))
    if (name.find("attn.x_") == name.npos) tensors.emplace_back(name, tensor.clone());
  for (int block = 0; block < 3; ++block) {
    Tensor<float> fused({6, 64});
    for (int64_t i = 0; i < 6; ++i) {
      const Tensor<float>& one = model_.at(rwkv7_block_name(block, rwkv7_fused_order[size_t(i)]));
      std::copy_n(one.data(), 64, fused.data() + 64 * i);
    }
    tensors.emplace_back(cat("model.layers.", block, ".attn.x_x"), std::move(fused));
  }
  test::expect_same(open(tensors), model_);
}

TEST_F(Checkpoint, LeavesOutWhatNobodyUses) {
  NamedTensors tensors = official();
  tensors.emplace_back("blocks.0.att.v0", Tensor<float>({1, 1, 64}));
  tensors.emplace_back("blocks.0.att.v1", Tensor<float>({64, 99}));
  tensors.emplace_back("blocks.0.att.v2", Tensor<float>({99, 64}));
  tensors.emplace_back("blocks.2.ln0.weight", Tensor<float>({64}));
  tensors.emplace_back("blocks.2.ln0.bias", Tensor<float>({64}));
  const Rwkv7Checkpoint checkpoint = open(tensors);
  EXPECT_EQ(checkpoint.validate(), test::small_shape());
  test::expect_same(checkpoint, model_);
}

TEST_F(Checkpoint, StripsTheTrainersPrefix) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : model_.tensors)
    tensors.emplace_back("_forward_module." + name, tensor.clone());
  test::expect_same(open(tensors), model_);
}

TEST_F(Checkpoint, ReadsAPthWithStrides) {
  test::Pickle pickle;
  pickle.empty_ordered_dict().raw("(");
  std::vector<std::string> storages;
  for (const auto& [name, tensor] : model_.tensors) {
    const Shape& shape = tensor.shape();
    const bool matrix = shape.rank() == 2 && name.find("r_k") == name.npos;
    // Matrices are stored turned, with strides that turn them back.
    const Tensor<float> stored = matrix ? test::turned(tensor) : tensor.clone();
    const std::vector<int64_t> size(shape.begin(), shape.end());
    std::vector<int64_t> stride(shape.begin(), shape.end());
    for (int i = 0; i < shape.rank(); ++i) stride[size_t(i)] = contiguous_strides(shape)[i];
    if (matrix) stride = {1, shape[0]};
    pickle.text(name).tensor("FloatStorage", cat(storages.size()), tensor.elements(), 0, size,
                             stride);
    storages.emplace_back(reinterpret_cast<const char*>(stored.data()),
                          size_t(stored.elements()) * 4);
  }
  replace_file(path_, test::pth_of(pickle.raw("u").end(), storages));
  const Rwkv7Checkpoint checkpoint(path_);
  test::expect_same(checkpoint, model_);
  EXPECT_FALSE(checkpoint.in_place("emb.weight"));
  EXPECT_TRUE(checkpoint.in_place("ln_out.bias"));
}

TEST_F(Checkpoint, GivesBytesInPlaceWhereTheyAreOfficial) {
  const Rwkv7Checkpoint own = open(official());
  for (const std::string& name : own.names()) {
    const std::optional<StoredTensor> tensor = own.in_place(name);
    ASSERT_TRUE(tensor) << name;
    EXPECT_EQ(tensor->shape, model_.at(name).shape());
    EXPECT_EQ(std::memcmp(tensor->bytes.data(), model_.at(name).data(), tensor->bytes.size()), 0);
  }
  const Rwkv7Checkpoint fla = open(test::as_fla(model_));
  EXPECT_TRUE(fla.in_place("blocks.1.att.key.weight"));
  EXPECT_FALSE(fla.in_place("blocks.1.att.w1"));
}

TEST_F(Checkpoint, OpensAHuggingFaceFolder) {
  const fs::path folder = scratch_.path() / "model";
  fs::create_directory(folder);
  EXPECT_FAULT(Rwkv7Checkpoint(folder), Fault::file, "model file in the folder, found none");
  test::write_named(folder / "model.safetensors", test::as_fla(model_), {{"format", "pt"}});
  const auto config = [&](std::string_view rest) {
    replace_file(folder / "config.json", cat(R"({"model_type":"rwkv7","head_dim":16,)", rest, "}"));
    return Rwkv7Checkpoint(folder);
  };
  const Rwkv7Checkpoint fused = config(R"("fuse_norm":true,"norm_eps":1e-5,"num_hidden_layers":3)");
  test::expect_same(fused, model_);
  EXPECT_EQ(fused.metadata().at("rwkv7.key_norm"), "rsqrt(sum + 1e-6)");
  EXPECT_EQ(fused.metadata().at("rwkv7.norm_eps"), "1e-05");
  EXPECT_EQ(fused.metadata().at("format"), "pt");
  EXPECT_EQ(fused.validate().norms, (Rwkv7Norms{1e-5f, 16e-5f, kernel::rsqrt_key_norm}));
  EXPECT_FAULT(config(R"("norm_eps":0)").validate(), Fault::file,
               "rwkv7.norm_eps: expected a number above 0, found '0'");
  EXPECT_EQ(config(R"("fuse_norm":false)").metadata().at("rwkv7.key_norm"), "max(norm, 1e-12)");
  EXPECT_FAULT(config(R"("num_hidden_layers":4)").validate(), Fault::file, "num_hidden_layers");
  EXPECT_FAULT(config(R"("hidden_size":32)").validate(), Fault::file, "hidden_size");
  replace_file(folder / "config.json", R"({"model_type":"llama"})");
  EXPECT_FAULT(Rwkv7Checkpoint(folder), Fault::file, "architecture 'llama'");
}

TEST_F(Checkpoint, MayLackTheEmbeddingNormOnlyWhereTheConfigSaysSo) {
  const fs::path folder = scratch_.path() / "model";
  fs::create_directory(folder);
  NamedTensors tensors;
  for (auto& [name, tensor] : test::as_fla(model_))
    if (name.find("pre_norm") == name.npos && name != "lm_head.weight")
      tensors.emplace_back(name, tensor.clone());
  test::write_named(folder / "model.safetensors", tensors);
  replace_file(folder / "config.json", R"({"norm_first":false,"tie_word_embeddings":true})");
  const Rwkv7Checkpoint checkpoint(folder);
  EXPECT_FALSE(checkpoint.validate().embedding_norm);
  EXPECT_EQ(checkpoint.read("head.weight")[5], model_.at("emb.weight")[5]);
  replace_file(folder / "config.json", R"({"tie_word_embeddings":true})");
  EXPECT_FAULT(Rwkv7Checkpoint(folder).validate(), Fault::file, "blocks.0.ln0.weight");
}

TEST_F(Checkpoint, NamesWhatIsMissingOrOfAnotherShape) {
  for (const std::string& name : model_.names()) {
    NamedTensors tensors;
    for (const auto& [other, tensor] : model_.tensors)
      if (other != name) tensors.emplace_back(other, tensor.clone());
    test::write_named(path_, tensors);
    EXPECT_FAULT(Rwkv7Checkpoint(path_).validate(), Fault::file, name);
  }
  model_.tensors["blocks.1.ffn.key.weight"] = Tensor<float>({95, 64});
  EXPECT_FAULT(open(official()).validate(), Fault::file,
               "blocks.1.ffn.key.weight: expected shape (96, 64)");
}

TEST_F(Checkpoint, RefusesTensorsItDoesNotKnow) {
  NamedTensors tensors = official();
  tensors.emplace_back("blocks.1.att.mystery", Tensor<float>({3}));
  EXPECT_FAULT(open(tensors), Fault::file, "tensor 'blocks.1.att.mystery'");
  tensors.back().first = "blocks.1.att.x_x";
  EXPECT_FAULT(open(tensors), Fault::file, "six vectors");
  tensors.back() = {"model.blocks.1.att.w0", Tensor<float>({64})};
  EXPECT_FAULT(open(tensors), Fault::file, "two");
  tensors.back() = {"blocks.99999999999.att.w0", Tensor<float>({64})};
  EXPECT_FAULT(open(tensors), Fault::file, "found a name that is none");
  tensors.back() = {"blocks.9999.att.w0", Tensor<float>({64})};
  EXPECT_FAULT(open(tensors).validate(), Fault::file, "blocks.3.ln1.weight");
  tensors.back() = {"blocks.3.att.w0", Tensor<float>({2, 64})};
  EXPECT_FAULT(open(tensors), Fault::file, "a vector");
  tensors.back() = {"blocks.3.att.w1", Tensor<float>({2, 3, 64})};
  EXPECT_FAULT(open(tensors), Fault::file, "a matrix");
  tensors.back() = {"blocks.3.att.w1", Tensor<float>({8, 64})};
  EXPECT_FAULT(open(tensors), Fault::file, "one orientation");
}

TEST_F(Checkpoint, SaysWhichOtherArchitectureItFound) {
  const auto refused = [&](const std::vector<std::string>& names, std::string_view why) {
    NamedTensors tensors;
    for (const std::string& name : names) tensors.emplace_back(name, Tensor<float>({1}));
    EXPECT_FAULT(open(tensors), Fault::file, why);
  };
  refused({"blocks.0.att.r_k", "blocks.0.ffn.s_emb.weight"}, "found rwkv7a");
  refused({"blocks.0.att.r_k", "blocks.0.ffn.s_emb.weight", "blocks.0.qkv.qq.weight"},
          "found rwkv7b");
  refused({"blocks.0.att.r_k", "blocks.0.ffn.enn.weight"}, "found RWKV-8");
  refused({"blocks.0.att.time_maa_x", "blocks.0.att.ln_x.weight"}, "found RWKV-6");
  refused({"blocks.0.att.time_decay", "blocks.0.att.ln_x.weight"}, "found RWKV-5");
  refused({"blocks.0.att.time_decay", "blocks.0.att.time_first"}, "found RWKV-4");
  refused({"model.layers.0.self_attn.q_proj.weight"}, "the first is 'model.layers.0.self_attn");
  refused({}, "found no tensors");
}

TEST_F(Checkpoint, SaysWhichOtherArchitectureAGgufStates) {
  for (const char* const architecture : {"arwkv7", "rwkv6", "llama"}) {
    write_gguf(path_, {{"general.architecture", std::string(architecture)}}, {}, {});
    EXPECT_FAULT(Rwkv7Checkpoint(path_), Fault::file, cat("architecture '", architecture, "'"));
  }
  write_gguf(path_, {}, {}, {});
  EXPECT_FAULT(Rwkv7Checkpoint(path_), Fault::file, "without general.architecture");
}

TEST_F(Checkpoint, TellsBaselinesFromSaneModels) {
  const SmallModel sane(test::small_sane_shape());
  NamedTensors tensors;
  for (const auto& [name, tensor] : sane.tensors) tensors.emplace_back(name, tensor.clone());
  const Rwkv7Checkpoint checkpoint = open(tensors, {{"sane.alpha", "2.5"}, {"sane.chunk", "16"}});
  EXPECT_EQ(checkpoint.sane(), (SaneSettings{2.5, 16}));
  EXPECT_EQ(checkpoint.validate(), test::small_sane_shape());
  test::expect_same(checkpoint, sane);
  EXPECT_FAULT(open(tensors), Fault::file, "expected the metadata sane.alpha");
  EXPECT_FAULT(open(tensors, {{"sane.alpha", "2.5"}}), Fault::file, "metadata sane.chunk");
  EXPECT_FAULT(open(official(), {{"sane.alpha", "2.5"}}), Fault::file, "found none");
  EXPECT_FAULT(open(tensors, {{"sane.alpha", "x"}, {"sane.chunk", "16"}}), Fault::file,
               "found 'x'");
  EXPECT_FAULT(open(tensors, {{"sane.alpha", "nan"}, {"sane.chunk", "16"}}), Fault::file,
               "positive");
  EXPECT_FAULT(open(tensors, {{"sane.alpha", "1"}, {"sane.chunk", "0"}}), Fault::file, "1 to 2^30");
  NamedTensors partial = official();
  partial.emplace_back("blocks.1.att.x_tau", Tensor<float>({64}));
  const Metadata metadata{{"sane.alpha", "1"}, {"sane.chunk", "16"}};
  EXPECT_FAULT(open(partial, metadata).validate(), Fault::file, "some blocks have tensors");
}

TEST_F(Checkpoint, FindsNumbersThatAreNotFinite) {
  EXPECT_FALSE(find_non_finite(open(official()).file()));
  model_.tensors["blocks.1.att.key.weight"][77] = std::nanf("");
  EXPECT_FAULT(open(official()), Fault::overflow,
               "tensor 'blocks.1.att.key.weight': nan at element 77; not finite: 1 of its numbers");
}

TEST(Open, NamesFilesOfAnotherKind) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "file";
  const auto refused = [&](std::string_view content, std::string_view why) {
    replace_file(path, content);
    EXPECT_FAULT(open_tensor_file(path), Fault::file, why);
  };
  refused("", "begins with ''");
  refused("hello, world of text", "begins with 'hello, world of '");
  refused("\x93NUMPY\1", "one NumPy array");
  refused("\x80\x02\x8a\x0al\xfc\x9c", "the older format");
  EXPECT_FAULT(open_tensor_file(scratch.path() / "none"), Fault::file, "No such file");
}

}  // namespace
}  // namespace deltasane
