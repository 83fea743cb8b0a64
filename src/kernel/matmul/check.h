// The operator's own check: every instruction set this machine has, against the definition in
// double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/matmul/matmul.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

struct MatmulShape {
  WeightType type = WeightType::f32;
  int64_t tokens = 1, out = 1, in = 1;
  Store store = Store::overwrite;
};

// Random weights and inputs of a shape; rows of few bits are longer, up to whole blocks. y starts as NaN, or as random numbers if it is added to.
struct MatmulProblem {
  MatmulProblem(const MatmulShape& shape, uint64_t seed);
  MatmulShape shape;
  Weights weights;
  Tensor<float> x, y;  // (tokens, in), (tokens, out)
};

// What is wrong with one kind of case on some instruction sets; empty: nothing.
std::vector<std::string> check_matmul(const MatmulShape& shape, uint64_t seed, ThreadPool& threads,
                                      std::span<const Isa> isas);

// Cases that reach every path: few and many tokens, edges of panels, depths and blocks.
std::vector<MatmulShape> matmul_cases(WeightType type);

}  // namespace deltasane::kernel
