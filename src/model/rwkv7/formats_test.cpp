// One model through every format: the same tensors must give the same logits.
#include <gtest/gtest.h>

#include <cmath>

#include "format/pth/fixture_pth.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/fixture.h"
#include "model/rwkv7/model.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Bytes;
using test::NamedTensors;
using test::SmallModel;

NamedTensors official_tensors(const SmallModel& model) {
  NamedTensors out;
  for (const auto& [name, tensor] : model.tensors) out.emplace_back(name, tensor.clone());
  return out;
}

void write_pth(const fs::path& path, const NamedTensors& tensors) {
  test::Pickle pickle;
  pickle.empty_ordered_dict();
  std::vector<std::string> storages;
  for (const auto& [name, tensor] : tensors) {
    std::vector<int64_t> size, stride(size_t(tensor.shape().rank()));
    for (const int64_t n : tensor.shape()) size.push_back(n);
    int64_t step = 1;
    for (size_t i = size.size(); i-- > 0; step *= size[i]) stride[i] = step;
    pickle.text(name).tensor("FloatStorage", std::to_string(storages.size()), tensor.elements(), 0,
                             size, stride);
    pickle.raw("s");
    const std::span<const float> numbers = tensor.span();
    storages.push_back(Bytes().floats({numbers.begin(), numbers.end()}).string());
  }
  replace_file(path, test::pth_of(pickle.end(), storages));
}

// rwkv.cpp keeps sizes with the last first, without those of 1, and turns the low-rank factors.
void write_rwkvcpp(const fs::path& path, const NamedTensors& tensors, const Rwkv7Shape& shape) {
  Bytes bytes;
  bytes.number(uint32_t{0x67676d66}).number(int32_t{101});
  for (const int64_t number : {shape.vocabulary, shape.channels, shape.layers, int64_t{0}})
    bytes.number(int32_t(number));
  for (const auto& [name, official] : tensors) {
    const bool factor = std::string_view("12").find(name.back()) != std::string_view::npos;
    const Tensor<float> tensor = factor ? test::turned(official) : official.clone();
    std::vector<int32_t> sizes;
    for (const int64_t n : tensor.shape())
      if (n != 1) sizes.insert(sizes.begin(), int32_t(n));
    bytes.number(int32_t(sizes.size())).number(int32_t(name.size())).number(int32_t{0});
    for (const int32_t size : sizes) bytes.number(size);
    bytes.text(name);
    const std::span<const float> numbers = tensor.span();
    bytes.floats({numbers.begin(), numbers.end()});
  }
  replace_file(path, bytes.string());
}

std::vector<float> logits_of(const fs::path& path) {
  OpenOptions options;
  options.weights = kernel::WeightType::f32;
  const Rwkv7 model(Rwkv7Checkpoint(path), options);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 21; ++i) tokens.push_back(i * 7 % int32_t(model.shape().vocabulary));
  ThreadPool threads(1);
  SequenceState state = model.fresh_state();
  Tensor<float> logits({21, model.shape().vocabulary});
  test::read_all(model, tokens, state, logits.view(), {threads});
  return {logits.span().begin(), logits.span().end()};
}

TEST(Formats, AllGiveTheSameLogits) {
  const test::Scratch scratch;
  const SmallModel small(test::small_shape());
  const fs::path at = scratch.path();
  write_rwkv7_safetensors(at / "f32.safetensors", small, StoredType::f32, {});
  const std::vector<float> expected = logits_of(at / "f32.safetensors");
  for (const float logit : expected) ASSERT_TRUE(std::isfinite(logit));
  ASSERT_NE(expected.front(), expected.back());

  for (const StoredType type : {StoredType::f16, StoredType::bf16}) {  // these hold its numbers
    const fs::path path = at / cat(name_of(type), ".safetensors");
    write_rwkv7_safetensors(path, small, type, {});
    EXPECT_EQ(logits_of(path), expected) << path;
  }
  for (const StoredType type : {StoredType::f32, StoredType::f16, StoredType::bf16}) {
    const fs::path path = at / cat(name_of(type), ".gguf");
    write_rwkv7_gguf(path, small, {type});
    EXPECT_EQ(logits_of(path), expected) << path;
  }
  write_pth(at / "model.pth", official_tensors(small));
  EXPECT_EQ(logits_of(at / "model.pth"), expected);
  write_rwkvcpp(at / "model.bin", official_tensors(small), test::small_shape());
  EXPECT_EQ(logits_of(at / "model.bin"), expected);
  int number = 0;
  for (const NamedTensors& tensors : {test::as_fla(small), test::as_web_rwkv(small),
                                      test::as_vllm(small), test::as_smerkyg(small)}) {
    const fs::path path = at / cat("others", ++number, ".safetensors");
    test::write_named(path, tensors);
    EXPECT_EQ(logits_of(path), expected) << path;
  }
}

TEST(Formats, SurviveTheWayThereAndBack) {
  const test::Scratch scratch;
  const fs::path at = scratch.path();
  const Metadata sane{{"sane.alpha", "3"}, {"sane.chunk", "16"}};
  const SmallModel small(test::small_sane_shape());
  write_rwkv7_safetensors(at / "a.safetensors", small, StoredType::f32, sane);
  const Rwkv7Checkpoint first(at / "a.safetensors");
  write_rwkv7_gguf(at / "b.gguf", first, {.types = StoredType::f32, .metadata = first.metadata()});
  const Rwkv7Checkpoint second(at / "b.gguf");
  write_rwkv7_safetensors(at / "c.safetensors", second, StoredType::f32, sane);
  test::expect_same(Rwkv7Checkpoint(at / "c.safetensors"), small);
  EXPECT_EQ(logits_of(at / "b.gguf"), logits_of(at / "a.safetensors"));
  EXPECT_EQ(logits_of(at / "c.safetensors"), logits_of(at / "a.safetensors"));
}

}  // namespace
}  // namespace deltasane
