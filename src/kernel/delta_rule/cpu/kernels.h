// The CPU kernels for the rule S <- S diag(w) + (S a) b' + v k', one head of one sequence at a time
// (the other rules are brought to this form by lower.h).
//
// Plain declarations only: forward.cpp and backward.cpp are compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

// Consecutive tokens without padding, inside one tile of 16 positions and one chunk. After the last
// one chunk number `chunk` of the call is neutralized; -1: none is.
struct Run {
  int64_t begin, end, chunk;
};
inline constexpr int64_t longest_run = 16;

// Vectors at a constant stride: one per token, or the rows of a state.
template <class T>
struct StridedRows {
  T* first;
  int64_t step;  // elements from one vector to the next
  T* at(int64_t i) const { return first + i * step; }
};

struct Head {
  StridedRows<const float> r, w, k, v, a, b;
  StridedRows<const float> tau;  // one number per chunk
  const Run* runs;
  int64_t run_count;
};

struct Rows {
  int64_t begin, end;
};

struct ForwardHead {
  Head head;
  StridedRows<float> state;  // rows x N
  StridedRows<float> y;
};

// Advances the rows `rows` of the states of a few neighbouring heads of one sequence over all runs,
// and writes these rows of y. Heads alternate at each run, because their vectors of a token are
// contiguous in memory. scratch: forward_scratch_floats() floats, unless all runs are of one token.
template <Isa isa, int N>
void forward(const ForwardHead* heads, int64_t count, Rows rows, float* scratch);

inline constexpr int64_t max_heads_together = 16;
inline constexpr int64_t forward_rows = 64;  // at a time
// A state split at multiples of these gives the same bits: rows of a slab share the choice of tanh's approximation.
inline constexpr int64_t split_rows = 32;
constexpr int64_t forward_scratch_floats(int64_t heads, int64_t N) {
  return heads * forward_rows * N;
}

// Gradients of a group of rows. The sums over rows (dr .. dtau) are accumulated into.
struct Gradients {
  StridedRows<const float> dy;
  StridedRows<float> dstate;  // rows x N: in, of the final state; out, of the initial state
  StridedRows<float> dv;
  StridedRows<float> dr, dw, dk, da, db;
  StridedRows<double> dtau;
  float* scratch;  // scratch_floats() floats
};

// initial: rows x N.
template <Isa isa, int N>
void backward(const Head& head, Rows rows, StridedRows<const float> initial,
              const Gradients& gradients);

// Rows that backward() works on at a time, and the scratch memory it needs.
inline constexpr int64_t backward_rows = 16;
constexpr int64_t scratch_floats(int64_t rows, int64_t run_count, int64_t N) {
  return (run_count + 1) * rows * N + (longest_run + 1) * backward_rows * N +
         2 * longest_run * backward_rows;
}

}  // namespace deltasane::kernel::cpu
