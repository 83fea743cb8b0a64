// A token of each of a few sequences at a time on a GPU, against the definition.
#include <gtest/gtest.h>

#include "model/rwkv7/gpu/fixture_on_gpu.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using kernel::WeightType;
using test::HeldRwkv7;
using test::ModelOnGpu;
using test::of_width;
using test::Sane;
using test::some_tokens;

class StepsOfRwkv7OnGpu : public test::Rwkv7OnGpuTest {
 protected:
  static constexpr int64_t steps = 3;

  // Sequence i has read i % 17 tokens before, so that chunks end at different times.
  struct Stepped {
    std::vector<SequenceState> states;
    std::vector<Tensor<float>> logits;  // of each step
    std::vector<int32_t> tokens = some_tokens(400);

    std::span<const int32_t> at(int64_t step) const {
      return std::span(tokens).subspan(size_t(100 + step * 70));
    }
    std::vector<int32_t> of_sequence(int64_t i) const {
      std::vector<int32_t> all(tokens.begin() + i, tokens.begin() + i + i % 17);
      for (int64_t step = 0; step < steps; ++step) all.push_back(at(step)[size_t(i)]);
      return all;
    }
    test::Numbers logits_of(int64_t i) const {
      test::Numbers all;
      for (const Tensor<float>& step : logits) {
        const auto row = step.view().slice(0, i, 1);
        all.insert(all.end(), row.data, row.data + step.shape()[1]);
      }
      return all;
    }
  };

  Stepped step_together(int64_t count) {
    ModelOnGpu model(file_of(1), sane_choice(), WeightType::f32);
    Stepped out;
    for (int64_t i = 0; i < count; ++i) {
      out.states.push_back(model.fresh_state());
      model.read(std::span(out.tokens).subspan(size_t(i), size_t(i % 17)), out.states.back());
    }
    for (int64_t step = 0; step < steps; ++step)
      out.logits.push_back(
          model.step(out.at(step).first(size_t(count)), out.states, shape_.vocabulary));
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out.states[size_t(i)].position, i % 17 + steps);
    return out;
  }
  size_t stepped_logits() const { return size_t(steps * shape_.vocabulary); }
  void expect_the_definition_of_steps(int64_t count);
  HeldRwkv7 source_of(WeightType type) const {
    HeldRwkv7 source = model_of(1);
    return is_quantized(type) ? test::quantized(source, type) : std::move(source);
  }
  void expect_near_the_definition_of_steps(int64_t count, WeightType type);
};

void StepsOfRwkv7OnGpu::expect_the_definition_of_steps(int64_t count) {
  const Stepped found = step_together(count);
  for (const int64_t i : {int64_t(0), count - 1}) {
    SCOPED_TRACE(cat("sequence ", i, " of ", count));
    const std::vector<int32_t> all = found.of_sequence(i);
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), all);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), all);
    const Closeness logits =
        closeness(found.logits_of(i), std::span(plain.logits).last(stepped_logits()),
                  std::span(truth.logits).last(stepped_logits()));
    const Closeness memory =
        closeness(test::memories(found.states[size_t(i)]), plain.memory, truth.memory);
    EXPECT_TRUE(logits.close) << "logits " << logits.explanation();
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
  }
}

// A step alone in bf16: the definition with rounded matrices, of which prompts are no part here. What
// rounding the matrices does to it is what a rounding of that size costs. Inputs of the four products
// of a layer and of the head are rounded likewise where there are more than four sequences, and up to
// there to 2^-8 of that; from nine on, and of a quantized model, what is kept at ten places of a layer.
void StepsOfRwkv7OnGpu::expect_near_the_definition_of_steps(int64_t count, WeightType type) {
  ModelOnGpu model(file_of(1), sane_choice(), type);
  const auto tokens = some_tokens(count * 11 + 10);
  std::vector<SequenceState> states;
  for (int64_t i = 0; i < count; ++i) states.push_back(model.fresh_state());
  const auto token_of = [&](int64_t i, int64_t step) { return tokens[size_t(i * 11 + step)]; };
  constexpr int64_t many = 4;
  Tensor<float> logits;
  for (int64_t step = 0; step < many; ++step) {
    std::vector<int32_t> now;
    for (int64_t i = 0; i < count; ++i) now.push_back(token_of(i, step));
    logits = model.step(now, states, shape_.vocabulary);
  }
  const HeldRwkv7 source = source_of(type), in_16_bits = test::rounded(source);
  const auto error = [](const auto& a, const auto& b) {
    double sum = 0;
    for (size_t i = 0; i < b.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
    return std::sqrt(sum / double(b.size()));
  };
  for (const int64_t i : {int64_t(0), count - 1}) {
    SCOPED_TRACE(cat("sequence ", i, " of ", count));
    std::vector<int32_t> all;
    for (int64_t step = 0; step < many; ++step) all.push_back(token_of(i, step));
    const auto exact = reference::rwkv7<double>(source, shape_, strength(), all);
    const auto truth = reference::rwkv7<double>(in_16_bits, shape_, strength(), all);
    const auto plain = reference::rwkv7<float>(in_16_bits, shape_, strength(), all);
    const double share = count > 8 || is_quantized(type) ? 10 : count > 4 ? 4 : 4 / 256.0;
    const auto last = [&](const auto& of) {
      return std::span(of).last(size_t(shape_.vocabulary));
    };
    const auto row = logits.span().subspan(size_t(i * shape_.vocabulary), last(exact.logits).size());
    EXPECT_LE(error(row, last(truth.logits)),
              share * error(last(exact.logits), last(truth.logits)) +
                  2 * error(last(plain.logits), last(truth.logits)));
    EXPECT_LE(error(test::memories(states[size_t(i)]), truth.memory),
              share * error(exact.memory, truth.memory) + 2 * error(plain.memory, truth.memory));
  }
}

// Up to four sequences of the small model are one kernel in float, and more a block of rows, which
// has other kernels for up to 32 and is recorded by the second step. Of a model that is too small for
// one kernel up to eight come together.
TEST_P(StepsOfRwkv7OnGpu, AreTheDefinitionOfEachSequence) {
  for (const int64_t count : {1, 2, 3, 4, 5, 8, 9, 70}) expect_the_definition_of_steps(count);
  take(of_width(64, 100, 61, 40));
  for (const int64_t count : {1, 2, 3, 5, 8, 9}) expect_the_definition_of_steps(count);
}

TEST_P(StepsOfRwkv7OnGpu, AreNearTheDefinitionIn16Bits) {
  for (const int64_t count : {1, 2, 3, 4, 5, 8, 9, 40, 130})
    expect_near_the_definition_of_steps(count, WeightType::bf16);
}

// The numbers of the blocks are the definition's. Rows of 192 and of 200 numbers are no whole blocks of
// 256, and 61 rows of a head stay bf16.
TEST_P(StepsOfRwkv7OnGpu, OfQuantizedModelsAreNearTheDefinition) {
  expect_near_the_definition_of_steps(1, WeightType::q8);
  expect_near_the_definition_of_steps(70, WeightType::q4_k);
  take(of_width(256, 512, 96, 40));
  expect_near_the_definition_of_steps(1, WeightType::q6_k);
  expect_near_the_definition_of_steps(17, WeightType::q4_k);
}

TEST_P(StepsOfRwkv7OnGpu, PromptsOfQuantizedModelsAreNearTheDefinition) {
  take(of_width(256, 512, 96, 40));
  const auto tokens = some_tokens(83);
  for (const WeightType type : {WeightType::q5_k, WeightType::q4})
    for (const size_t length : {size_t{17}, size_t{83}}) {
      SCOPED_TRACE(cat(name_of(type), ", ", length, " tokens"));
      ModelOnGpu model(file_of(1), sane_choice(), type);
      SequenceState state = model.fresh_state();
      const std::span<const int32_t> read(tokens.data(), length);
      Tensor<float> logits = model.logits_of_all(read, state, shape_.vocabulary);
      expect_near_the_definition({std::move(logits), std::move(state)}, read, source_of(type));
    }
}

TEST_P(StepsOfRwkv7OnGpu, HaveTheBytesOfTheirBlocks) {
  take(of_width(256, 512, 96, 40));
  const auto bytes = [&](WeightType type) {
    return ModelOnGpu(file_of(1), sane_choice(), type).weight_bytes();
  };
  const uint64_t weights = 2 * (4 * 256 * 256 + 2 * 256 * 512) + 96 * 256;
  EXPECT_EQ(bytes(WeightType::bf16) - bytes(WeightType::q8), weights * 2 - weights / 32 * 34);
  EXPECT_EQ(bytes(WeightType::bf16) - bytes(WeightType::q4_k), weights * 2 - weights / 256 * 148);
  EXPECT_EQ(bytes(WeightType::bf16) - bytes(WeightType::q6_k), weights * 2 - weights / 256 * 210);
}

// A mixture of q4_k and q6_k: the definition has the file's numbers.
TEST_P(StepsOfRwkv7OnGpu, KeepTheBlocksOfTheirFile) {
  take(of_width(256, 512, 96, 40));
  const fs::path path = scratch_.path() / "mixture.gguf";
  Rwkv7Checkpoint(file_of(1)).write_gguf(
      path, {.types = {StoredType::q4_k, StoredType::q6_k}, .metadata = metadata()});
  const Rwkv7Checkpoint written(path);
  EXPECT_EQ(written.type("head.weight"), StoredType::q6_k);
  const auto tokens = some_tokens(20);
  ModelOnGpu model(path, sane_choice(), std::nullopt);
  SequenceState state = model.fresh_state();
  Tensor<float> logits = model.logits_of_all(tokens, state, shape_.vocabulary);
  expect_near_the_definition({std::move(logits), std::move(state)}, tokens, HeldRwkv7(written));
  const uint64_t bf16_bytes = ModelOnGpu(path, sane_choice(), WeightType::bf16).weight_bytes();
  uint64_t saved = 0;
  for (const std::string& name : written.names())
    if (const StoredType type = written.type(name);
        type == StoredType::q4_k || type == StoredType::q6_k) {
      const auto numbers = uint64_t(written.shape(name)[0] * written.shape(name)[1]);
      if (!name.starts_with("emb"))
        saved += numbers * 2 - numbers / 256 * (type == StoredType::q4_k ? 148 : 210);
    }
  EXPECT_EQ(bf16_bytes - model.weight_bytes(), saved);
}

TEST_P(StepsOfRwkv7OnGpu, RefusesWeightsThatAGpuDoesNotTake) {
  EXPECT_FAULT(ModelOnGpu(file_of(1), sane_choice(), WeightType::f16), Fault::usage,
               "weights on a GPU: expected f32, bf16, q8, q6_k, q5_k, q4_k or q4, found f16");
}

INSTANTIATE_TEST_SUITE_P(Kinds, StepsOfRwkv7OnGpu,
                         testing::Values(Sane::none, Sane::run_time, Sane::trained),
                         test::name_of_sane);

}  // namespace
}  // namespace deltasane
