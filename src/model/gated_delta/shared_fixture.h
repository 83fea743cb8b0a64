// For tests: models that others made, with their tokens and logits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "format/npy/npy.h"
#include "model/gated_delta/fixture.h"

namespace deltasane::gated_delta {

inline constexpr double allowed = 3e-4;  // of the logits' standard deviation: docs/numerics.md

inline std::vector<float> numbers(const NpyArray& array) {
  std::vector<float> all(size_t(array.shape.elements()));
  array.read(0, all);
  return all;
}

inline double deviation(const std::vector<float>& x) {
  double mean = 0, square = 0;
  for (const float value : x) mean += double(value) / double(x.size());
  for (const float value : x) square += std::pow(double(value) - mean, 2) / double(x.size());
  return std::sqrt(square);
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most;
}

class SharedModels : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder = fs::path(DELTASANE_SHARED) / "data/family" / GetParam();
  ThreadPool threads{2};
  kernel::Cpu cpu{threads};
  std::vector<int32_t> tokens;

  void SetUp() override {
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not here";
    const NpyArray array = open_npy(folder / "tokens.npy");
    tokens.resize(size_t(array.shape.elements()));
    array.read(0, tokens);
  }
  fs::path path() const {
    const fs::path gguf = folder / "model.gguf";
    return fs::exists(gguf) ? gguf : folder;
  }
  std::unique_ptr<LanguageModel> open(const SaneChoice& sane = {}) const {
    return open_model(path(), {.weights = kernel::WeightType::f32, .sane = sane});
  }
  std::vector<float> logits(const LanguageModel& model, SequenceState& state,
                            const std::vector<int64_t>& calls) {
    Tensor<float> all({int64_t(tokens.size()), model.vocabulary()});
    int64_t from = 0;
    for (size_t i = 0; from < int64_t(tokens.size()); ++i) {
      const int64_t count =
          std::min(calls[i % calls.size()], int64_t(tokens.size()) - from);
      model.forward({std::span(tokens).subspan(size_t(from), size_t(count)), &state,
                     Want::all_logits, all.view().slice(0, from, count)},
                    cpu);
      from += count;
    }
    return {all.span().begin(), all.span().end()};
  }
};

}  // namespace deltasane::gated_delta
