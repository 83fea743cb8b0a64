// Muon: one step of one matrix, on the CPU.
//
//     momentum <- mu momentum + g        u = g + mu momentum
//     w <- (1 - rate decay) w - rate 0.2 sqrt(max(rows, columns)) NS(u)
//
// NS, the Newton-Schulz iteration: x = u / (|u| + 1e-7), transposed where it has more rows than
// columns; then five times
//
//     A = x x'        x <- 3.4445 x + (-4.7750 A + 2.0315 A A) x
//
// and back. Every singular value of u / |u| that is not tiny ends near 1 (within 0.68 and 1.14).
//
// w, g, momentum   (rows, columns), packed; momentum begins as 0
//
// Results do not depend on the number of threads. reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

inline constexpr double newton_schulz_a = 3.4445, newton_schulz_b = -4.7750,
                        newton_schulz_c = 2.0315;
inline constexpr int newton_schulz_steps = 5;

void newton_schulz(View<float> x, const Cpu& cpu);  // (rows, columns), overwritten

// Of a step, shared by all matrices.
struct MuonParams {
  double rate, momentum;
};

struct MuonStep {
  MuonParams params;
  double decay = 0;  // of this matrix
  int64_t rows = 0, columns = 0;
  float* w = nullptr;
  const float* g = nullptr;
  float* momentum = nullptr;
};
void muon_step(const MuonStep& op, const Cpu& cpu);

}  // namespace deltasane::kernel
