// The operator's check on a GPU: as check.h, in float and in bf16.
#pragma once

#include <string>
#include <vector>

#include "kernel/delta_rule/problem.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// What is wrong with one kind of case, forward and (where it starts a chunk) backward; empty:
// nothing. Four cases of the kind are judged together, as in check.h (one of many heads). In bf16,
// inputs are rounded before, and the yardstick is the definition in float with its results rounded
// the same way; also dw, which is a float but comes from products of 16 bits (cuda_split.cuh).
template <class Real>
std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed, const Gpu& gpu);

// Whether a problem with SANE gives finite numbers, and the same bits in parts of so many tokens as
// in one. Several sequences are read in one part: twice the same.
template <class Real>
bool is_its_parts(const ProblemShape& shape, int64_t part, const Gpu& gpu);
// 150 tiles and a rest, with taus that differ much: kernels that walk over tiles come to the end of
// whatever they have for some of them.
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
// Cases that reach every path that there is with such tau: few and many heads, whole tiles and
// rests, positions, chunk sizes.
std::vector<ProblemShape> gpu_delta_rule_cases(const Gpu& gpu, const TauRange& taus);

}  // namespace deltasane::kernel::cuda
