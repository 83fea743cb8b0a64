#include "kernel/sampler/sampler_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "support/errors.h"

namespace deltasane {
namespace {

std::string saved(const SamplerState& state) {
  const std::vector<std::byte> bytes = state.save();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

SamplerState loaded(std::string_view bytes) {
  // Memory of exactly their size, so that a sanitizer sees one byte too far.
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::ranges::copy(std::as_bytes(std::span(bytes)), exact.get());
  return SamplerState::load({exact.get(), bytes.size()});
}

const SamplerState example{1, ~uint64_t{0}, 12345, {{0, 0.5}, {7, 1e-9}, {65535, 3.25}}};

TEST(SamplerState, ComesBackAsItWas) {
  EXPECT_EQ(loaded(saved({})), SamplerState{});
  EXPECT_EQ(loaded(saved(example)), example);
}

TEST(SamplerState, RefusesEveryCutAndWhatIsTooLong) {
  const std::string good = saved(example);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FAULT(loaded(good.substr(0, length)), Fault::file, "sampler state");
  EXPECT_FAULT(loaded(good + "x"), Fault::file, "bytes of counts");
}

TEST(SamplerState, SurvivesEveryFlippedBit) {
  const std::string good = saved(example);
  for (size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bytes = good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    try {
      EXPECT_FALSE(loaded(bytes) == example);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::file);
    }
  }
}

TEST(SamplerState, RefusesWrongCounts) {
  const auto with = [](std::vector<TokenCount> counts) {
    return saved({0, 0, 0, std::move(counts)});
  };
  for (const double wrong :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FAULT(loaded(with({{1, wrong}})), Fault::file, "counts of 0 or more");
  EXPECT_FAULT(loaded(with({{1, 1}, {1, 1}})), Fault::file, "ascending tokens");
  EXPECT_FAULT(loaded(with({{2, 1}, {1, 1}})), Fault::file, "ascending tokens");
  EXPECT_FAULT(loaded(with({{-1, 1}})), Fault::file, "ascending tokens");
  std::string many = saved({});
  many.replace(many.size() - 4, 4, "\xff\xff\xff\xff");
  EXPECT_FAULT(loaded(many), Fault::file, "expected 51539607540 bytes of counts, found 0");
}

TEST(SamplerState, ForgetsWithoutBecomingSubnormal) {
  SamplerState state;
  state.count(1, 0.5);
  for (int i = 0; i < 2000; ++i) state.count(2, 0.5);
  EXPECT_EQ(state.counts[0], (TokenCount{1, 0}));  // still there: it was sampled once
}

}  // namespace
}  // namespace deltasane
