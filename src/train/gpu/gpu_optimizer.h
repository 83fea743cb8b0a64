// The updates of optimizer.h on a GPU, by the same rules; muon_reference.h is the definition.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/cuda/gpu.h"
#include "train/optimizer.h"
#include "train/precision.h"

namespace deltasane::train {

// Rows of numbers on the GPU, in the layout.
struct GpuOptimizerRows {
  float* parameters;
  float* gradient;
  float *first, *second;
};

class GpuOptimizer {
 public:
  // products: the type in which Muon multiplies matrices.
  GpuOptimizer(const ParameterLayout& layout, const OptimizerSettings& settings,
               Precision products, const Gpu& gpu);
  ~GpuOptimizer();

  // The sum of the gradient's squares, into *sum on the GPU.
  void sum_of_squares(const float* gradient, double* sum);

  // With `factor` times the gradient. steps: how many there were, with this one. Does not wait.
  void step(const GpuOptimizerRows& rows, float factor, double rate, int64_t steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::train
