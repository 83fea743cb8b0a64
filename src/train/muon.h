// Muon's orthogonalised update (Moonlight).
//
// Newton-Schulz: x = u / (|u| + 1e-7), transposed where it has more rows than columns; then five
// times
//
//     A = x x'        x <- 3.4445 x + (-4.7750 A + 2.0315 A A) x
//
// and back. Every singular value of u / |u| that is not tiny ends near 1 (within 0.68 and 1.14).
// The plain loop in muon_reference.h is the definition.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/tensor.h"

namespace deltasane::train {

inline constexpr double newton_schulz_a = 3.4445, newton_schulz_b = -4.7750,
                        newton_schulz_c = 2.0315;
inline constexpr int newton_schulz_steps = 5;

// x (rows, columns) is overwritten. Results do not depend on the number of threads.
void newton_schulz(View<float> x, const kernel::Cpu& cpu);

}  // namespace deltasane::train
