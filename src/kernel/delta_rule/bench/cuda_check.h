// The operator's check on a GPU: as check.h, in float and in bf16.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/delta_rule/bench/problem.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// The faults of one kind of case, forward and (where it starts a chunk) backward; empty: none. Four
// cases of the kind are compared together, as in check.h (one of many heads). In bf16, inputs are
// rounded before, and the allowed error follows from the definition in float with its results
// rounded the same way; also dw, which is a float but comes from products of bf16 numbers
// (cuda/split_bf16.cuh).
template <class Real>
std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed, const Gpu& gpu);

// Whether a problem with SANE gives finite numbers, and the same bits in parts of `part` tokens as
// in one. Several sequences are run in one part, twice.
template <class Real>
bool equals_its_parts(const ProblemShape& shape, int64_t part, const Gpu& gpu);
// Whether sequences of these lengths in one call have the bits of each alone.
template <class Real>
bool lengths_are_alone(const ProblemShape& shape, std::span<const int32_t> lengths, const Gpu& gpu);
// 150 tiles and a remainder, with taus that differ much: kernels that walk over tiles wrap around
// all their buffers.
inline ProblemShape long_sequence(int64_t heads) {
  return {.time = 150 * 16 + 5, .heads = heads, .tau_low = 0.4, .tau_high = 12, .stagger = 0};
}

// No SANE, strong and weak SANE.
struct TauRange {
  const char* name;
  double low, high;
};
inline constexpr TauRange gpu_delta_rule_taus[] = {{"none", 0, 0},
                                                   {"strong", 1.4, 1.6},
                                                   {"usual", 7, 9},
                                                   {"moderate", 12, 16},
                                                   {"changing", 0.4, 12}};
// Cases that cover every path with such tau: few and many heads, whole tiles and remainders,
// positions, chunk sizes.
std::vector<ProblemShape> gpu_delta_rule_cases(const Gpu& gpu, const TauRange& taus);

}  // namespace deltasane::kernel::cuda
