// The sampler on a GPU. Its steps (cuda/sample_row.cuh) are compared with the CPU's sampler by one
// thread of the host, without a GPU; the GPU must sample exactly the tokens of that one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/cat.h"
#include "kernel/cuda/gpu_test_case.h"
#include "kernel/sampler/cuda.h"
#include "kernel/sampler/logits_fixture.h"
#include "kernel/sampler/sampler.h"
#include "kernel/sampler/sampler_reference.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using kernel::SampledToken;
using kernel::SamplingParams;
using kernel::TokenPenalty;

std::vector<SamplerSettings> all_settings() {
  std::vector<SamplerSettings> all{{0, 0.8, 20},    {1, 1, 0},     {1, 0.8, 20},   {0.7, 0.95, 0},
                                   {1.5, 0.999, 0}, {1, 0.5, 0},   {1, 0, 0},      {1, 1, 1},
                                   {2, 1, 300},     {1, 0.3, 300}, {0.001, 1, 0},  {1000, 0.9, 0},
                                   {1000, 1, 40},   {1, 0.9, 200}, {0.5, 0.99, 64}};
  const size_t plain = all.size();
  for (size_t i = 0; i < plain; ++i) {
    SamplerSettings after = all[i];
    after.temperature_order = TemperatureOrder::after_filters;
    after.presence_penalty = 0.4, after.frequency_penalty = 0.3;
    all.push_back(after);
  }
  return all;
}

// Logits with everything that may be in them: ties, zeros of both signs, tokens that are banned.
std::vector<float> mixed_logits(int64_t count, double deviation, uint64_t seed) {
  std::vector<float> logits = test::normal_logits(count, deviation, seed);
  Random random(seed, 1);
  for (float& logit : logits) {
    const uint64_t kind = random.below(10);
    if (kind == 0) logit = -test::infinity;
    if (kind == 1) logit = std::round(logit);
    if (kind == 2) logit = random.below(2) ? 0.0f : -0.0f;
  }
  logits[size_t(random.below(uint64_t(count)))] = 1;  // not all are banned
  return logits;
}

// How far a probability that was cumulated from floats may be from the truth: what both samplers
// do, bounded. An exponent (logit - largest) * scale is rounded three times; the polynomial and the
// product after it eight times; the host adds up to 64 floats to each other before it continues in
// double; and the GPU's masses are integers, cut off at 2^-46 for 65536 tokens.
double cumulated_error(std::span<const float> logits, double temperature) {
  const float largest = std::ranges::max(logits);
  double mass = 0, exponents = 0;
  for (const float logit : logits) {
    const double x = (double(largest) - double(logit)) / temperature;
    if (!std::isfinite(x)) continue;
    mass += std::exp(-x);
    exponents += std::exp(-x) * x;
  }
  return (3 * exponents / mass + 8 + 64) * 0x1p-24 + double(logits.size()) * 0x1p-45;
}

// Whether `found`, another token than `expected`, is as right: both are next to a border of
// cumulated probabilities which the random number hits up to rounding.
bool is_as_right(int32_t found, int32_t expected, std::span<const float> logits,
                 const SamplerSettings& settings, std::span<const TokenCount> counts,
                 double uniform) {
  const auto truth = test::reference_distribution(logits, settings, counts);
  std::vector<float> penalised(logits.begin(), logits.end());
  for (const TokenCount& entry : counts)
    penalised[size_t(entry.token)] -=
        float(settings.presence_penalty + settings.frequency_penalty * entry.count);
  const bool after = settings.temperature_order == TemperatureOrder::after_filters;
  const double error = cumulated_error(penalised, settings.temperature);
  if (truth.margin <= cumulated_error(penalised, after ? 1 : settings.temperature)) return true;
  std::vector<int32_t> order;
  for (const auto& [token, probability] : truth.probability) order.push_back(token);
  const bool top_k = settings.top_k > 0 && settings.top_k < int64_t(logits.size());
  if (top_k || (settings.top_p < 1 && order.size() <= 64))
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](int32_t token) { return penalised[size_t(token)]; });
  double sum = 0, low = 1, high = 0;  // of the borders between the two
  bool between = false;
  for (const int32_t token : order) {
    const bool is_one = token == found || token == expected;
    if (is_one && between)
      return std::abs(low - uniform) <= error && std::abs(high - uniform) <= error;
    sum += truth.probability.at(token);
    if (is_one) between = true;
    if (between) low = std::min(low, sum), high = std::max(high, sum);
  }
  return false;  // one of them cannot be drawn
}

TEST(SamplerSteps, SampleWhatTheSamplerSamples) {
  int64_t draws = 0, at_borders = 0;
  for (const int64_t count : {1, 2, 65, 1003, 20000})
    for (const SamplerSettings& settings : all_settings())
      for (uint64_t stream = 0; stream < (count > 5000 ? 3 : 12); ++stream) {
        const double deviation = stream % 3 == 0 ? 0.1 : 3;
        Sampler sampler(settings, stream), other(settings, stream);
        for (uint64_t step = 0; step < 4; ++step) {
          const std::vector<float> logits = mixed_logits(count, deviation, 100 * stream + step);
          const std::vector<TokenCount> counts = sampler.state().counts;
          std::vector<TokenPenalty> penalties{{0, NAN}};  // another row's
          const SamplingParams how = other.params(penalties);
          ASSERT_EQ(how.penalties_begin, 1);
          std::vector<float> row = logits;
          const SampledToken sampled = kernel::cuda::sample_row_on_host(row, how, penalties);
          const int32_t expected = sampler.next(logits);
          ++draws;
          if (sampled.token != expected) {
            ++at_borders;
            ASSERT_TRUE(is_as_right(sampled.token, expected, logits, settings, counts, how.uniform))
                << count << " tokens, temperature " << settings.temperature << ", top-p "
                << settings.top_p << ", top-k " << settings.top_k << ", stream " << stream
                << ", step " << step << ": expected " << expected << ", found " << sampled.token;
          }
          SampledToken same = sampled;
          same.token = expected;  // so that both continue alike
          other.accept(same, count);
          ASSERT_EQ(other.state(), sampler.state());
        }
      }
  EXPECT_LE(at_borders, draws / 100) << "of " << draws;
}

TEST(SamplerSteps, NothingIsSampledFromLogitsThatAreNotFinite) {
  const SamplingParams how;
  for (const float wrong : {test::nan, -test::nan, test::infinity}) {
    std::vector<float> logits(41, 1.0f);
    logits[30] = logits[17] = wrong;
    const SampledToken sampled = kernel::cuda::sample_row_on_host(logits, how, {});
    EXPECT_EQ(sampled.token, -1);
    EXPECT_EQ(sampled.broken, 17);
    Sampler sampler({1, 0.8, 20});
    EXPECT_FAULT(sampler.accept(sampled, 41, 99), Fault::overflow,
                 "logits at position 99: token 17:");
    EXPECT_EQ(sampler.state(), SamplerState{});
  }
  std::vector<float> banned(5, -test::infinity);
  const SampledToken none = kernel::cuda::sample_row_on_host(banned, how, {});
  EXPECT_EQ(none.broken, -1);
  EXPECT_FAULT(Sampler({1, 0.8, 20}).accept(none, 5), Fault::argument, "none of 5");
}

class GpuSampler : public kernel::GpuTest {
 protected:
  template <class T>
  GpuTensor<T> put(const std::vector<T>& numbers) const {
    GpuTensor<T> made(gpu(), {int64_t(numbers.size())}, "a test");
    made.upload(numbers, gpu());
    return made;
  }
};

// A row of its own for each of the settings and kinds of logits; more rows than multiprocessors.
TEST_F(GpuSampler, SamplesWhatOneThreadSamples) {
  for (const int64_t count : {1, 2, 31, 1003, 4104, 9001, 65536}) {
    std::vector<float> logits;
    std::vector<SamplingParams> params;
    std::vector<TokenPenalty> penalties;
    for (const SamplerSettings& settings : all_settings())
      for (uint64_t stream = 0; stream < 6; ++stream) {
        const std::vector<float> row =
            mixed_logits(count, stream % 3 == 0 ? 0.1 : 3, 7 * stream + params.size());
        logits.insert(logits.end(), row.begin(), row.end());
        SamplerState state{3, stream, stream, {}};
        for (int32_t token = 0; token < std::min<int64_t>(count, 9 * int64_t(stream)); token += 2)
          state.counts.push_back({token, 0.5 + 0.1 * double(token % 7)});
        params.push_back(Sampler(settings, state).params(penalties));
      }
    const auto rows = int64_t(params.size());
    logits[size_t(2 * count + count / 2)] = test::nan;
    logits[size_t(3 * count + count - 1)] = test::infinity;
    std::fill_n(logits.begin() + 4 * count, count, -test::infinity);
    std::fill_n(logits.begin() + 5 * count, count, 2.0f);  // all are equal
    auto there = put(logits);
    const auto how = put(params);
    const auto taken = put(penalties);
    auto sampled = put(std::vector<SampledToken>(size_t(rows) + 1, SampledToken{-9, -9, 5}));
    kernel::cuda::sample_rows({rows, count, there.data(), how.data(), taken.data(), sampled.data()},
                              gpu());
    const Tensor<SampledToken> found = sampled.on_host(gpu());
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> own(logits.begin() + row * count, logits.begin() + (row + 1) * count);
      const SampledToken expected =
          kernel::cuda::sample_row_on_host(own, params[size_t(row)], penalties);
      EXPECT_EQ(found[row].token, expected.token) << "row " << row << " of " << count;
      EXPECT_EQ(found[row].broken, expected.broken) << "row " << row << " of " << count;
    }
    EXPECT_EQ(found[2].broken, count / 2);
    EXPECT_TRUE(std::isnan(found[2].value));
    EXPECT_EQ(found[rows].token, -9) << "one row too many";

    // Several blocks for a row, eight, four or two: the same.
    const int64_t processors = gpu().properties().multiprocessors;
    for (const int64_t together : {int64_t(1), int64_t(7), processors / 4, processors / 2}) {
      there = put(logits);
      sampled = put(std::vector<SampledToken>(size_t(rows) + 1, SampledToken{-9, -9, 5}));
      for (int64_t row = 0; row < rows; row += together) {
        float* const own = there.data() + row * count;
        if (together == 1)
          kernel::cuda::sample_row(
              {count, own, params[size_t(row)], taken.data(), sampled.data() + row}, gpu());
        else
          kernel::cuda::sample_rows({std::min(together, rows - row), count, own, how.data() + row,
                                     taken.data(), sampled.data() + row},
                                    gpu());
      }
      const Tensor<SampledToken> parts = sampled.on_host(gpu());
      for (int64_t row = 0; row < rows; ++row) {
        EXPECT_EQ(parts[row].token, found[row].token)
            << "row " << row << " of " << count << ", " << together << " at a time";
        EXPECT_EQ(parts[row].broken, found[row].broken)
            << "row " << row << " of " << count << ", " << together << " at a time";
      }
      EXPECT_TRUE(std::isnan(parts[2].value));
      EXPECT_EQ(parts[rows].token, -9) << "one row too many";
    }
  }
}

}  // namespace
}  // namespace deltasane
