// The CPU kernels for the rule S <- S diag(w) + (S a) b' + v k', one head of one sequence at a time
// (the other rules are brought to this form by lower.h).
//
// Plain declarations only: cpu_forward.cpp and cpu_backward.cpp are compiled per instruction set.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

// A stretch of tokens without padding that lies inside one tile of 16 positions and one chunk.
// Its last token ends chunk number `chunk` of the call and is neutralized; -1: it is not.
struct Run {
  int64_t begin, end, chunk;
};
inline constexpr int64_t longest_run = 16;

// One vector per token.
template <class T>
struct Track {
  T* first;
  int64_t step;  // elements from a token's vector to the next token's
  T* at(int64_t t) const { return first + t * step; }
};

struct Head {
  Track<const float> r, w, k, v, a, b;
  Track<const float> tau;  // one number per chunk
  const Run* runs;
  int64_t run_count;
};

struct Rows {
  int64_t begin, end;
};

struct ForwardHead {
  Head head;
  Track<float> state;  // rows x N
  Track<float> y;
};

// The part `rows` of the states of a few neighbouring heads of one sequence is advanced over all
// runs, and y's part `rows` written. Heads take turns at each run: in memory their vectors of a
// token lie side by side. scratch: forward_scratch_floats() of them, unless all runs are of one
// token.
template <Isa isa, int N>
void forward(const ForwardHead* heads, int64_t count, Rows rows, float* scratch);

inline constexpr int64_t most_heads_together = 16;
inline constexpr int64_t forward_rows = 64;  // at a time
constexpr int64_t forward_scratch_floats(int64_t heads, int64_t N) {
  return heads * forward_rows * N;
}

// Gradients of a group of rows. The sums over rows (dr .. dtau) are added to what is there.
struct Gradients {
  Track<const float> dy;
  Track<float> dstate;  // rows x N: in, of the final state; out, of the initial state
  Track<float> dv;
  Track<float> dr, dw, dk, da, db;
  Track<float> dtau;
  float* scratch;  // scratch_floats() of them
};

// initial: rows x N.
template <Isa isa, int N>
void backward(const Head& head, Rows rows, Track<const float> initial, const Gradients& gradients);

// Rows that backward() works on at a time, and the scratch memory it needs.
inline constexpr int64_t backward_rows = 16;
constexpr int64_t scratch_floats(int64_t rows, int64_t run_count, int64_t N) {
  return (run_count + 1) * rows * N + (longest_run + 1) * backward_rows * N +
         2 * longest_run * backward_rows;
}

}  // namespace deltasane::kernel::cpu
