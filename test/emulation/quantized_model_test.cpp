// A quantized RWKV-7 is the bf16 model made of its numbers: in bits, where products are the library's,
// whose sums have one order in the emulation.
#include "model/rwkv7/gpu/fixture_on_gpu.h"

namespace deltasane {
namespace {

using kernel::WeightType;

class QuantizedRwkv7OnGpu : public test::Rwkv7OnGpuTest {};

TEST_P(QuantizedRwkv7OnGpu, PromptsHaveTheBitsOfTheBf16Model) {
  take(test::of_width(256, 544, 96, 40));  // values of the feed-forward are no whole blocks of 256
  const auto tokens = test::some_tokens(83);
  for (const WeightType type : {WeightType::q8, WeightType::q6_k, WeightType::q4}) {
    const fs::path path = scratch_.path() / cat(name_of(type), ".safetensors");
    write_rwkv7_safetensors(path, test::quantized(model_of(1), type), StoredType::f32, metadata());
    const auto read = [&](const fs::path& file, WeightType weights) {
      test::ModelOnGpu model(file, sane_choice(), weights);
      SequenceState state = model.fresh_state();
      Tensor<float> logits = model.logits_of_all(tokens, state, shape_.vocabulary);
      return test::Outcome{std::move(logits), std::move(state)};
    };
    const test::Outcome found = read(file_of(1), type), expected = read(path, WeightType::bf16);
    EXPECT_TRUE(std::ranges::equal(found.logits.span(), expected.logits.span())) << name_of(type);
    EXPECT_TRUE(std::ranges::equal(test::memories(found.state), test::memories(expected.state)))
        << name_of(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedRwkv7OnGpu,
                         testing::Values(test::Sane::none, test::Sane::trained),
                         test::name_of_sane);

}  // namespace
}  // namespace deltasane
