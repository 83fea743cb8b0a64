// What a checkpoint states about its norms is used: the logits are the definition's with the same
// norms, and are other ones than with the official norms.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/norms.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference/reference.h"
#include "model/rwkv7/trainable.h"
#include "support/scratch.h"
#include "tensor/closeness.h"

namespace deltasane {
namespace {

struct NormCase {
  Metadata metadata;
  Rwkv7Norms norms;
};
// Heads of 32. The last as FLA writes it.
const NormCase norm_cases[] = {
    {{{"rwkv7.norm_eps", "0.02"}}, {.layer_eps = 0.02f}},
    {{{"rwkv7.group_norm_eps", "0.5"}}, {.group_eps = 0.5f}},
    {{{"rwkv7.key_norm", "rsqrt(sum + 1e-6)"}}, {.key = kernel::rsqrt_key_norm}},
    {{{"config.norm_eps", "0.001"}, {"config.fuse_norm", "true"}},
     {0.001f, 0.032f, kernel::rsqrt_key_norm}}};

// Keys so short that the addend of 1e-6 shows.
test::HeldRwkv7 with_short_keys(const Rwkv7Shape& shape) {
  test::HeldRwkv7 model{RandomRwkv7(shape, 1)};
  for (auto& [name, tensor] : model.tensors)
    if (name.ends_with("att.key.weight"))
      for (float& x : tensor.span()) x *= 2e-4f;
  return model;
}

TEST(Norms, OfACheckpointAreThoseOfItsLogits) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  const Rwkv7Shape official = test::small_rwkv7(61);
  const test::HeldRwkv7 source = with_short_keys(official);
  ThreadPool threads(2);
  std::vector<int32_t> tokens;
  Random random(5);
  for (int i = 0; i < 20; ++i) tokens.push_back(int32_t(random.below(61)));
  const auto official_truth = reference::rwkv7<double>(source, official, {}, tokens).logits;
  const auto official_plain = reference::rwkv7<float>(source, official, {}, tokens).logits;
  for (const NormCase& one : norm_cases) {
    write_rwkv7_safetensors(path, source, StoredType::f32, one.metadata);
    const Rwkv7 model(Rwkv7Checkpoint(path), {});
    EXPECT_EQ(model.shape().norms, one.norms);
    Rwkv7Shape shape = official;
    shape.norms = one.norms;
    SequenceState state = model.fresh_state();
    Tensor<float> logits({20, 61});
    model.forward(
        {.tokens = tokens, .state = &state, .want = Want::all_logits, .logits = logits.view()},
        {threads});
    const auto truth = reference::rwkv7<double>(source, shape, {}, tokens);
    const auto plain = reference::rwkv7<float>(source, shape, {}, tokens);
    const Closeness found = closeness(logits.span(), plain.logits, truth.logits);
    EXPECT_TRUE(found.close) << one.metadata.begin()->first << ": " << found.explanation();
    EXPECT_FALSE(closeness(logits.span(), official_plain, official_truth).close)
        << one.metadata.begin()->first;
  }
}

// A run that begins with such a model keeps its norms, in its checkpoints too.
TEST(Norms, StayThroughTraining) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors", saved = scratch.path() / "saved";
  const Rwkv7Shape shape = test::small_rwkv7(61);
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const auto official = rwkv7::trainable.open(path, std::nullopt);
  for (const NormCase& one : norm_cases) {
    write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, one.metadata);
    const auto model = rwkv7::trainable.open(path, std::nullopt);
    EXPECT_FALSE(model->same_model(*official));
    model->save(saved);
    EXPECT_EQ(Rwkv7Checkpoint(saved).validate().norms, one.norms);
    EXPECT_TRUE(rwkv7::trainable.restore(saved)->same_model(*model));
  }
}

}  // namespace
}  // namespace deltasane
