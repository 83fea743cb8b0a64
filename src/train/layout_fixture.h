// For tests: a layout with parameters of every role, of no architecture in particular.
#pragma once

#include "base/cat.h"
#include "model/train/parameters.h"

namespace deltasane::train::test {

inline constexpr int64_t example_blocks = 3, example_matrices = 6;  // matrices: of each block

struct ExampleSizes {
  int64_t channels = 12, wide = 20, rank = 5, vocabulary = 11;
};

inline ParameterLayout example_layout(const ExampleSizes& sizes = {}) {
  return ParameterLayout([&](auto&& visit) {
    using Role = ParameterRole;
    const auto& [channels, wide, rank, vocabulary] = sizes;
    visit("embedding", Shape{vocabulary, channels}, Role::embedding, int64_t{0});
    for (int64_t block = 0; block < example_blocks; ++block) {
      const auto add = [&](const char* name, const Shape& shape, Role role) {
        visit(cat("block ", block, " ", name), shape, role, block);
      };
      add("norm", {channels}, Role::vector);
      add("bonus", {2, channels / 2}, Role::vector);
      add("decay bias", {channels}, Role::decay_bias);
      add("down", {channels, rank}, Role::low_rank);
      add("up", {rank, channels}, Role::low_rank);
      for (const char* const name : {"query", "key", "value", "output"})
        add(name, {channels, channels}, Role::matrix);
      add("wide", {wide, channels}, Role::matrix);
      add("narrow", {channels, wide}, Role::matrix);
      add("mix of tau", {channels}, Role::sane);
      add("tau", {channels, 2}, Role::sane);
    }
    visit("last norm", Shape{channels}, Role::vector, example_blocks);
    visit("head", Shape{vocabulary, channels}, Role::head, example_blocks);
  });
}

}  // namespace deltasane::train::test
