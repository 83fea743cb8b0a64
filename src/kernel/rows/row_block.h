// The rows that an operator on a GPU is given: the tokens of all sequences, (sequence, time,
// channel) and packed. Sequence i has the rows [i * time, (i + 1) * time).
#pragma once

#include <cstdint>

namespace deltasane::kernel::cuda {

struct RowBlock {
  int64_t sequences = 0, time = 0, channels = 0;
  int64_t rows() const { return sequences * time; }
};

}  // namespace deltasane::kernel::cuda
