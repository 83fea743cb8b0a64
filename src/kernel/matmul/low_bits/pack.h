// Between GGUF's blocks and those of products (block.h).
#pragma once

#include <cstddef>

#include "kernel/matmul/low_bits/block.h"

namespace deltasane::kernel {

int64_t gguf_block_bytes(WeightType type);  // Q4_0, Q4_K, Q5_K or Q6_K: of one row

// One block of a row to its place among 8 rows.
void pack_low_bits(WeightType type, const std::byte* gguf, int in_group, std::byte* block);

// An element of a block of 8 rows.
float low_bit_element(WeightType type, const std::byte* block, int in_group, int64_t column);

}  // namespace deltasane::kernel
