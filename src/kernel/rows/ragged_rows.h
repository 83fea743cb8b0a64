// Rows of several sequences on a GPU, those of one sequence after those of another, and the states
// that the sequences carry. Arrays are on the GPU.
#pragma once

#include <cstdint>

namespace deltasane::kernel::cuda {

struct RaggedRows {
  int64_t rows = 0, sequences = 0;
  int64_t longest = 0;                    // rows of a sequence, at most
  const int32_t* sequence = nullptr;      // (rows): which one a row is of
  const int32_t* first = nullptr;         // (sequences): its first row
  const int32_t* length = nullptr;        // (sequences): its rows, at least 1
  const int64_t* position = nullptr;      // (sequences): of its first row's token in the stream
  float* const* states = nullptr;         // (sequences): its numbers of fixed size
};

}  // namespace deltasane::kernel::cuda
