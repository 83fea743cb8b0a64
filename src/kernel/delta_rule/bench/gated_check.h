// The check of the gated rules on a GPU (gated_cuda/), against the definition in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/delta_rule/delta_rule.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct GatedShape {
  Rule rule = Rule::gated_deltanet;
  int64_t batch = 1, time = 1, key_heads = 1, heads = 1, keys = 64, values = 64;
  double tau_low = 1.4, tau_high = 1.6;  // both 0: no SANE
  int64_t position = 0;
  double strongest = 0.6;    // decays: e^-x with x from 0 to this one
  bool with_zeros = false;   // some decays are 0
  double state_scale = 1;    // of the initial state's entries
  bool save_states = false;  // backward is given what forward saved
};
std::string name_of(const GatedShape& shape);

// The faults of a kind of case, forward and backward; empty: none. Four cases are compared together,
// as in check.h (one of many heads). Vectors are rounded to bf16 before; docs/numerics.md has what
// is allowed.
enum class Checked { forward, forward_and_backward };
std::vector<std::string> check_gated(const GatedShape& shape, uint64_t seed, Checked checked,
                                     const Gpu& gpu);

// Whether a sequence gives finite numbers, and the same bits in parts of `part` tokens, a multiple
// of 16, as in one.
bool gated_equals_its_parts(const GatedShape& shape, int64_t part, const Gpu& gpu);
// Whether sequences of these lengths in one call have the bits of each alone, and nothing is written
// behind their ends.
bool gated_lengths_are_alone(const GatedShape& shape, std::span<const int32_t> lengths,
                             const Gpu& gpu);
// The faults of a sequence computed in calls of these lengths, token by token where they are 1.
std::vector<std::string> check_gated_calls(const GatedShape& shape, uint64_t seed,
                                           std::span<const int64_t> calls, const Gpu& gpu);

// Cases that cover every path for heads of a size: few and many heads, heads that share keys,
// strong decays, remainders, positions, saved states.
std::vector<GatedShape> gated_cases(Rule rule, int64_t keys, int64_t values);

}  // namespace deltasane::kernel::cuda
