// The training step on a GPU against its definition, tensor by tensor.
#include "model/rwkv7/train/gpu/gradient_pass.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernel/sane/cuda.h"
#include "model/rwkv7/train/gpu/fixture.h"
#include "model/rwkv7/train/gpu/unsupported.h"
#include "model/rwkv7/train/pooled_gradients.h"
#include "model/train/gpu/padding.h"
#include "support/errors.h"

namespace deltasane::rwkv7 {
namespace {

using test::gpu_shape;
using test::GpuResult;
using test::gradient_on_gpu;
using test::random_parameters;

class GpuGradientPassTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  }
};

struct TrainingCase {
  std::optional<SaneSettings> sane;
  int64_t layers, sequences, time;
  Rwkv7Norms norms{};
};
const TrainingCase training_cases[] = {{std::nullopt, 3, 2, 21},
                                       {SaneSettings{1.0, 16}, 3, 2, 37},
                                       {SaneSettings{0.7, 16}, 1, 3, 16},
                                       {SaneSettings{1.0, 16}, 2, 1, 5},
                                       {std::nullopt, 2, 2, 21, {0.1f, 0.3f, {2.0f, 0}}}};

std::string too_far(const TrainingCase& one, double error = 0) {
  Rwkv7Shape shape = gpu_shape(one.sane.has_value(), one.layers);
  shape.norms = one.norms;
  const TrainingBatch batch = test::random_batch(shape, one.sequences, one.time);
  return test::too_far_from_definition(
      shape, one.sane, batch, error,
      [&](const Parameters& model, const LossSettings& settings, std::vector<float>& found) {
        const GpuResult result =
            gradient_on_gpu<float>(shape, model, batch, settings, Activations::keep);
        found = result.gradient;
        return result.loss;
      });
}

TEST_F(GpuGradientPassTest, LossAndGradientAreTheDefinition) {
  for (const TrainingCase& one : training_cases) EXPECT_EQ(too_far(one), "") << one.time;
}

// Wider than the models of the CPU's test, where a millionth is: plain arithmetic errs more here.
TEST_F(GpuGradientPassTest, AnErrorOfFourMillionthsIsTooFarFromTheDefinition) {
  EXPECT_NE(too_far(training_cases[1], 4e-6), "");
}

// More than have the gradients of SANE's own parameters at once.
constexpr int64_t many_layers = 10;
static_assert(many_layers > kernel::cuda::TauWeightsGradient<float>::most_layers);

TEST_F(GpuGradientPassTest, RecomputingAndRepeatingDoNotShow) {
  const SaneSettings sane{1.0, 16};
  const Rwkv7Shape shape = gpu_shape(true, many_layers);
  const Parameters model = random_parameters(shape, 7, sane);
  const TrainingBatch batch = test::random_batch(shape, 3, 33);
  const LossSettings settings{batch.weight_total(), 1e-4};
  const auto once = [&]<class Real>(Real, Activations kept) {
    return gradient_on_gpu<Real>(shape, model, batch, settings, kept);
  };
  EXPECT_EQ(once(float(), Activations::keep), once(float(), Activations::recompute));
  EXPECT_EQ(once(float(), Activations::keep), once(float(), Activations::keep));
  EXPECT_EQ(once(bf16(), Activations::keep), once(bf16(), Activations::recompute));
  EXPECT_EQ(once(bf16(), Activations::keep), once(bf16(), Activations::keep));
}

// Another stream may read a bucket once the GPU is past the point where it was reported: it has its
// last value.
TEST_F(GpuGradientPassTest, BucketsAreCompleteWhenTheyAreReported) {
  const Gpu gpu(0), other(0);
  for (const Activations kept : {Activations::keep, Activations::recompute}) {
    const Rwkv7Shape shape = gpu_shape(true, many_layers);
    const Parameters model = random_parameters(shape, 11, SaneSettings{1.0, 16});
    const TrainingBatch batch = test::random_batch(shape, 2, 37);
    const int64_t n = model.layout().elements();
    GpuTensor<float> parameters(gpu, {n}, "parameters"), gradient(gpu, {n}, "gradient");
    GpuTensor<float> reported(gpu, {n}, "what was reported");
    GpuTensor<double> loss(gpu, {1}, "loss");
    parameters.upload(model.all(), gpu);
    gradient.zero(gpu), reported.zero(gpu), loss.zero(gpu);
    const auto pass = make_gpu_gradient_pass<float>(shape, model.sane(), {2, 37, kept}, gpu);
    std::vector<int> times(size_t(n), 0);
    std::vector<int64_t> begins;
    pass->add({parameters.data(), parameters.data()}, batch, {batch.weight_total(), 0},
              gradient.data(), loss.data(), [&](std::span<float> bucket) {
                begins.push_back(bucket.data() - gradient.data());
                for (size_t i = 0; i < bucket.size(); ++i) ++times[size_t(begins.back()) + i];
                GpuEvent ready;
                ready.record(gpu);
                ready.stream_wait(other.stream());
                copy_on_gpu(reported.data() + begins.back(), bucket.data(), bucket.size_bytes(),
                            other);
              });
    other.wait();
    EXPECT_TRUE(std::ranges::equal(reported.on_host(gpu).span(), gradient.on_host(gpu).span()));
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    EXPECT_EQ(begins.size(), size_t(shape.layers) + 1);
    EXPECT_TRUE(std::ranges::is_sorted(begins, std::greater()));
  }
}

// More batches than there is pinned memory for: none overtakes another.
TEST_F(GpuGradientPassTest, GradientsOfEqualBatchesAddUp) {
  const Rwkv7Shape shape = gpu_shape(false);
  const Parameters model = random_parameters(shape, 8, std::nullopt);
  const TrainingBatch batch = test::random_batch(shape, 2, 19);
  const LossSettings settings{batch.weight_total(), 0};
  const GpuResult one = gradient_on_gpu<float>(shape, model, batch, settings, Activations::keep);
  const GpuResult four =
      gradient_on_gpu<float>(shape, model, batch, settings, Activations::keep, 4);
  EXPECT_DOUBLE_EQ(four.loss, 4 * one.loss);
  double largest = 0, error = 0;
  for (size_t i = 0; i < one.gradient.size(); ++i) {
    largest = std::max(largest, double(std::abs(one.gradient[i])));
    error = std::max(error, double(std::abs(four.gradient[i] - 4 * one.gradient[i])));
  }
  EXPECT_LT(error, 1e-5 * largest);  // the order of sums
}

// Padding in front of a row's tokens, whose last predicts the first of them; behind them; both; and
// rows with none beside them.
enum class PaddedAt { front, back, both };
TrainingBatch padded_rows(const Rwkv7Shape& shape, PaddedAt where) {
  TrainingBatch batch = test::random_batch(shape, 4, 53);
  batch.present.assign(size_t(batch.rows()), 1);
  const auto pad = [&](int64_t sequence, int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      const size_t at = size_t(sequence * batch.time + t);
      batch.present[at] = 0;
      if (at > 0 && t > 0) batch.weights[at - 1] = 0;  // nobody learns it
    }
  };
  if (where != PaddedAt::back) pad(0, 0, 5), pad(1, 0, 16), pad(2, 0, 39);
  if (where != PaddedAt::front) {
    for (const auto& [sequence, from] : {std::pair<int64_t, int64_t>{0, 20}, {2, 48}}) {
      pad(sequence, from, batch.time);
      batch.weights[size_t((sequence + 1) * batch.time - 1)] = 0;
    }
  }
  return batch;
}

TEST_F(GpuGradientPassTest, PaddingOnEitherSideIsTheDefinition) {
  for (const auto& sane : {std::optional<SaneSettings>(), std::optional(SaneSettings{0.5, 16})})
    for (const PaddedAt where : {PaddedAt::front, PaddedAt::back, PaddedAt::both}) {
      const Rwkv7Shape shape = gpu_shape(sane.has_value());
      const TrainingBatch batch = padded_rows(shape, where);
      for (const Activations kept : {Activations::keep, Activations::recompute})
        EXPECT_EQ(test::too_far_from_definition(
                      shape, sane, batch, 0,
                      [&](const Parameters& model, const LossSettings& settings,
                          std::vector<float>& found) {
                        const GpuResult result =
                            gradient_on_gpu<float>(shape, model, batch, settings, kept);
                        found = result.gradient;
                        return result.loss;
                      }),
                  "")
            << int(where);
    }
}

// Whole chunks of padding in front do not show, as they do not in the definition.
TEST_F(GpuGradientPassTest, WholeChunksOfPaddingInFrontDoNotShow) {
  const SaneSettings sane{0.5, 16};
  const Rwkv7Shape shape = gpu_shape(true);
  const Parameters model = random_parameters(shape, 12, sane);
  TrainingBatch plain = test::random_batch(shape, 1, 64), shifted = plain;
  for (size_t i = 0; i < 64; ++i) {
    const size_t from = i < 32 ? 0 : i - 32;
    shifted.tokens[i] = plain.tokens[from], shifted.targets[i] = plain.targets[from];
    shifted.weights[i] = i < 32 ? 0 : plain.weights[from];
    shifted.present.push_back(i >= 32);
    if (i >= 32) plain.weights[i] = 0;
  }
  const LossSettings settings{plain.weight_total(), 0};
  const GpuResult one = gradient_on_gpu<float>(shape, model, plain, settings, Activations::keep);
  const GpuResult other =
      gradient_on_gpu<float>(shape, model, shifted, settings, Activations::keep);
  EXPECT_NEAR(one.loss, other.loss, 1e-6 * one.loss);
}

// What is announced before a run is what it takes.
TEST_F(GpuGradientPassTest, AllocatesWhatItSaysBeforehand) {
  const Gpu gpu(0);
  for (const bool with_sane : {false, true})
    for (const Activations kept : {Activations::keep, Activations::recompute}) {
      const Rwkv7Shape shape = gpu_shape(with_sane, 4);
      const auto sane = with_sane ? std::optional(SaneSettings{1, 16}) : std::nullopt;
      const PassSettings f32{3, 100, kept, Precision::fp32}, b16{3, 100, kept, Precision::bf16};
      EXPECT_EQ(make_gpu_gradient_pass<float>(shape, sane, f32, gpu)->bytes(),
                gpu_gradient_pass_memory(shape, sane, f32).total());
      EXPECT_EQ(make_gpu_gradient_pass<bf16>(shape, sane, b16, gpu)->bytes(),
                gpu_gradient_pass_memory(shape, sane, b16).total());
    }
}

TEST(GpuTrainingMemory, IsCountedWithoutAGpu) {
  const auto total = [](Activations kept, Precision precision) {
    return gpu_gradient_pass_memory(gpu_shape(true, 12), SaneSettings{1, 16},
                                    {8, 512, kept, precision})
        .total();
  };
  using enum Activations;
  EXPECT_LT(2 * total(recompute, Precision::bf16), total(keep, Precision::bf16));
  EXPECT_LT(total(keep, Precision::bf16), total(keep, Precision::fp32));
}

TEST(GpuTrainingUnsupported, NeedNoGpu) {
  Rwkv7Shape small_heads = gpu_shape(false);
  small_heads.heads = 8, small_heads.head_size = 16;
  EXPECT_FAULT(gpu::expect_trainable(small_heads, std::nullopt), Fault::usage,
               "training on a GPU: expected heads of 64 channels, found 16; use the device cpu");
  EXPECT_FAULT(gpu::expect_trainable(gpu_shape(true), SaneSettings{1, 8}), Fault::usage,
               "expected SANE chunks of 16 tokens, found 8; use the device cpu");
  EXPECT_NO_THROW(gpu::expect_trainable(gpu_shape(true), SaneSettings{1, 16}));

  TrainingBatch batch = test::random_batch(gpu_shape(false), 2, 20);
  EXPECT_NO_THROW(expect_padding_at_the_ends(batch)) << "no padding at all";
  EXPECT_FALSE(has_padding_in_front(batch));
  batch.present.assign(40, 1);
  for (size_t i = 33; i < 40; ++i) batch.present[i] = 0, batch.weights[i] = 0;
  EXPECT_NO_THROW(expect_padding_at_the_ends(batch));
  EXPECT_FALSE(has_padding_in_front(batch));
  for (size_t i = 20; i < 23; ++i) batch.present[i] = 0;
  EXPECT_NO_THROW(expect_padding_at_the_ends(batch));
  EXPECT_TRUE(has_padding_in_front(batch));
  batch.present[25] = 0;  // inside the second row, with weights after it
  batch.weights[32] = 1;
  EXPECT_FAULT(expect_padding_at_the_ends(batch), Fault::usage,
               "found it at token 5 of row 1; use the device cpu");
}

TEST_F(GpuGradientPassTest, RefusesWhatItsOperatorsDoNotHave) {
  const Gpu gpu(0);
  Rwkv7Shape small_heads = gpu_shape(false);
  small_heads.heads = 8, small_heads.head_size = 16;
  EXPECT_FAULT(make_gpu_gradient_pass<float>(small_heads, std::nullopt, {1, 16}, gpu), Fault::usage,
               "expected heads of 64 channels, found 16");
  EXPECT_FAULT(make_gpu_gradient_pass<float>(gpu_shape(true), SaneSettings{1, 8}, {1, 16}, gpu),
               Fault::usage, "expected SANE chunks of 16 tokens, found 8");
  EXPECT_FAULT(make_gpu_gradient_pass<bf16>(gpu_shape(false), std::nullopt, {4096, 65536}, gpu),
               Fault::device, "for the activations of 3 layers, 4096 x 65536 tokens");
}

}  // namespace
}  // namespace deltasane::rwkv7
