// Rows of an embedding table on the CPU, and the gradient of the table.
//
//     x[row] = table[token of row]
//     dtable[token of row] += dx[row]
//
// tokens          (rows)
// table, dtable   (vocabulary, C), packed
// x, dx           (rows, C)
//
// Rows are added in their order, whatever the number of threads. reference.h is the definition.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

void embed(std::span<const int32_t> tokens, const float* table, View<float> x, const Cpu& cpu);

void embed_backward(std::span<const int32_t> tokens, View<const float> dx, float* dtable,
                    const Cpu& cpu);

}  // namespace deltasane::kernel
