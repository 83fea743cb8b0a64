#include "kernel/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernel/embedding/reference.h"

namespace deltasane::kernel {
namespace {

struct Tokens {
  int64_t vocabulary, channels;
  std::vector<int32_t> tokens;
  Tokens(int64_t rows, int64_t of, int64_t c) : vocabulary(of), channels(c) {
    Random random(5);
    for (int64_t i = 0; i < rows; ++i)
      tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
  }
  Shape shape() const { return {int64_t(tokens.size()), channels}; }
  std::vector<float> numbers(int64_t count) const {
    Random random(6);
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(float(random.normal()));
    return out;
  }
};
const Tokens token_cases[] = {{0, 3, 8}, {1, 1, 1}, {33, 7, 100}, {200, 5, 130}};

TEST(Embedding, IsTheDefinition) {
  ThreadPool threads(3);
  for (const Tokens& one : token_cases) {
    const std::vector<float> table = one.numbers(one.vocabulary * one.channels);
    std::vector<float> found(size_t(one.shape().elements()), NAN), expected = found;
    embed(one.tokens, table.data(), {found.data(), one.shape()}, {threads});
    reference::embed<float>(one.tokens, table, expected);
    EXPECT_EQ(found, expected);
  }
}

// Rows are added in their order: the bits are those of a plain loop.
TEST(Embedding, GradientIsTheDefinition) {
  ThreadPool threads(3);
  for (const Tokens& one : token_cases) {
    const std::vector<float> dx = one.numbers(one.shape().elements());
    std::vector<float> found(size_t(one.vocabulary * one.channels), 0.5f), expected = found;
    embed_backward(one.tokens, {dx.data(), one.shape()}, found.data(), {threads});
    reference::embed_backward<float>(one.tokens, dx, expected);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace deltasane::kernel
