// For tests of RWKV-7 on a GPU: a small model without SANE, with it at run time or trained, and its
// definition.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/log_probability.h"
#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference/reference.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"
#include "tensor/pooled_closeness.h"

namespace deltasane::test {

inline constexpr Rwkv7Shape small = small_gpu_rwkv7();

constexpr Rwkv7Shape of_width(int64_t channels, int64_t feed_forward, int64_t vocabulary,
                              int64_t rank_g) {
  Rwkv7Shape shape = small;
  shape.layers = 2, shape.channels = channels, shape.heads = channels / 64;
  shape.feed_forward = feed_forward, shape.vocabulary = vocabulary, shape.rank_g = rank_g;
  return shape;
}

enum class Sane { none, run_time, trained };
inline std::string name_of_sane(const testing::TestParamInfo<Sane>& one) {
  constexpr const char* names[] = {"none", "run_time", "trained"};
  return names[size_t(one.param)];
}

inline std::vector<int32_t> some_tokens(int64_t count) {
  Random random(5);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(int32_t(random.below(uint64_t(small.vocabulary))));
  return tokens;
}

// With its matrices rounded to bf16, as a model on a GPU has them.
inline HeldRwkv7 rounded(const TensorSource& model) {
  HeldRwkv7 out(model);
  for (auto& [name, numbers] : out.tensors)
    if (numbers.shape().rank() == 2 && numbers.shape()[0] > 1 && numbers.shape()[1] > 1 &&
        name.find("r_k") == name.npos)
      for (float& number : numbers.span()) number = float(bf16(number));
  return out;
}

using Numbers = std::vector<float>;

struct Outcome {
  Tensor<float> logits;
  SequenceState state;
};

class Rwkv7OnGpuTest : public testing::TestWithParam<Sane> {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
    take(small);
  }

  void take(const Rwkv7Shape& shape) {
    shape_ = shape;
    shape_.sane = GetParam() == Sane::trained;
  }

  HeldRwkv7 model_of(uint64_t seed) const { return HeldRwkv7(RandomRwkv7(shape_, seed)); }
  Metadata metadata() const {
    if (!shape_.sane) return {};
    return {{"sane.alpha", "3"}, {"sane.chunk", "16"}};
  }
  fs::path file_of(uint64_t seed) const {
    const fs::path path = scratch_.path() / cat(shape_.channels, "-", seed, ".safetensors");
    if (!fs::exists(path))
      write_rwkv7_safetensors(path, RandomRwkv7(shape_, seed), StoredType::f32, metadata());
    return path;
  }
  SaneChoice sane_choice() const {
    SaneChoice sane;
    if (GetParam() == Sane::run_time) sane.alpha = 0.5;
    return sane;
  }
  Rwkv7 open(const Device& device, kernel::WeightType weights, uint64_t seed = 1) const {
    OpenOptions options;
    options.device = device;
    options.weights = weights;
    options.sane = sane_choice();
    return Rwkv7(Rwkv7Checkpoint(file_of(seed)), options);
  }
  Rwkv7 on_gpu(kernel::WeightType weights = kernel::WeightType::f32) const {
    return open({0}, weights);
  }
  Outcome run(const Rwkv7& model, std::span<const int32_t> tokens,
              std::span<const int64_t> lengths) {
    Outcome out{Tensor<float>({int64_t(tokens.size()), shape_.vocabulary}), model.fresh_state()};
    out.logits.fill(NAN);
    int64_t from = 0;
    for (const int64_t length : lengths) {
      read_all(model, tokens.subspan(size_t(from), size_t(length)), out.state,
               out.logits.view().slice(0, from, length), {threads_});
      from += length;
    }
    EXPECT_EQ(out.state.position, int64_t(tokens.size()));
    return out;
  }
  reference::SaneStrength strength() const {
    if (GetParam() == Sane::none) return {};
    return {GetParam() == Sane::trained ? 3.0 : 0.5, 16};
  }
  // In float, by the rule for models.
  void expect_the_definition(const Outcome& found, std::span<const int32_t> tokens) {
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), tokens);
    const Closeness logits =
        closeness(found.logits.span(), plain.logits, truth.logits, Criterion::rms_error);
    const Closeness memory =
        closeness(memories(found.state), plain.memory, truth.memory, Criterion::rms_error);
    EXPECT_TRUE(logits.close) << "logits " << logits.explanation();
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
  }

  // In 16 bits: what rounding every matrix once does to the result is what one rounding of that
  // size costs. A layer rounds about as much again at each of the ten places where activations are
  // kept in 16 bits, so ten times that is allowed.
  void expect_near_the_definition(const Outcome& found, std::span<const int32_t> tokens) {
    expect_near_the_definition(found, tokens, model_of(1));
  }
  void expect_near_the_definition(const Outcome& found, std::span<const int32_t> tokens,
                                  const HeldRwkv7& source) {
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto off = reference::rwkv7<double>(rounded(source), shape_, strength(), tokens);
    const auto error = [](const auto& a, const auto& b) {
      double sum = 0;
      for (size_t i = 0; i < b.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
      return std::sqrt(sum / double(b.size()));
    };
    EXPECT_LE(error(found.logits.span(), truth.logits), 10 * error(off.logits, truth.logits));
    EXPECT_LE(error(memories(found.state), truth.memory), 10 * error(off.memory, truth.memory));
  }

  Rwkv7Shape shape_;
  Scratch scratch_;
  ThreadPool threads_{2};
};

}  // namespace deltasane::test
