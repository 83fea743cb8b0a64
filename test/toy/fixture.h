// For tests: toys with random weights, written as files.
#pragma once

#include <map>

#include "support/scratch.h"
#include "toy/toy.h"

namespace deltasane::toy {

// Layer 0: a convolution and a memory of 2 heads, 6 x 4. Layer 1: a cache, no memory. Layer 2: two
// memories, 3 heads of 5 x 3 and 1 head of 2 x 7.
Sizes mixed_sizes();

struct Plan {
  Sizes sizes = mixed_sizes();
  uint64_t seed = 1;
  std::optional<SaneSettings> sane = {};  // trained: the weights of tau are there too
  // The decay of heads by (layer, head in the layer); others have 0.98. A decay of 1 adds up, one
  // above 1 grows exponentially.
  std::map<std::pair<int64_t, int64_t>, double> decays = {};
};

void write_toy(const fs::path& path, const Plan& plan = {});

// A model in a folder of its own, opened through the registry.
struct OpenToy {
  test::Scratch scratch;
  fs::path path = scratch.path() / "toy.safetensors";
  std::unique_ptr<LanguageModel> model;
  ThreadPool threads{2};
  kernel::Cpu cpu{threads};

  explicit OpenToy(const Plan& plan = {}, const SaneChoice& sane = {});
  std::vector<float> logits_after(std::span<const int32_t> tokens, SequenceState& state) const;
};

std::vector<int32_t> random_bytes(int64_t count, uint64_t seed);

// All numbers of a state are the same bits, the position too.
bool same_bits(const SequenceState& a, const SequenceState& b);

}  // namespace deltasane::toy
