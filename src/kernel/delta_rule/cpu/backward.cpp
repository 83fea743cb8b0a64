// Backward, run by run from the end, a block of rows at a time.
//
// With the scaling of rows.h and G the gradient of S, G~_n = G_n diag(W_n) obeys
//
//     G~_n  += dy_n (r_n W_n)'                         dr_n = W_n (S~_n' dy_n)
//     dv_n   = G~_n (k_n / W_n)                        dk_n = (G~_n' v_n) / W_n
//     dsa_n  = G~_n (b_n / W_n)                        db_n = (G~_n' sa_n) / W_n
//     da_n   = W_{n-1} (S~_{n-1}' dsa_n)               dw_n = W_{n-1} / W_n sum_i (G~_n S~_{n-1})
//     G~_{n-1} = G~_n + dsa_n (a_n W_{n-1})'
//
// where S~_{-1} is the state that enters the run, and W_{-1} = 1. With the decay on entry, W = 1
// and the last line is G = G~_0 diag(w_0) + dsa_0 a_0'.
#include "kernel/delta_rule/cpu/kernels.h"
#include "kernel/delta_rule/cpu/rows.h"

namespace deltasane::kernel::cpu {
namespace {

// Columns whose sums over rows are in registers at a time.
template <Isa isa, int N>
constexpr int columns_together = registers_of(isa) == 32 && 2 * lanes_of(isa) <= N
                                     ? 2 * lanes_of(isa)
                                     : lanes_of(isa);

template <Isa isa, int N>
struct Block {
  static constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  const Head& head;
  const Gradients& g;
  const RunVectors<isa, N>& in;
  const RunScales<N>& scales;
  const Run& run;
  int64_t row, count;  // rows [row, row + count), at most backward_rows
  float* states;       // (token + 1, row, N): S that enters the run, then S~ after each token
  float* sa;           // (token, row)
  float* dsa;          // (row)

  float* state(int64_t n, int64_t i) const { return states + (n * backward_rows + i) * N; }
  float* G(int64_t i) const { return g.dstate.at(row + i); }

  // From the gradient of the state after the run to G~ of its last token.
  void enter() const {
    const Neutralize<lanes> boundary(run.chunk < 0 ? 1.0f : *head.tau.at(run.chunk));
    Vec dtau = {}, lost = {};
    for (int64_t i = 0; i < count; ++i)
      for (int c = 0; c < N; c += lanes) {
        const Vec scale = V::load(in.last_scale + c);
        Vec gradient = V::load(G(i) + c);
        if (run.chunk >= 0)
          add_up(dtau, lost, boundary.gradient(V::load(state(in.length, i) + c) * scale, gradient));
        V::store(G(i) + c, gradient * scale);
      }
    if (run.chunk < 0) return;
    double& sum = *g.dtau.at(run.chunk);
    for (int x = 0; x < lanes; ++x) {
      sum += double(dtau[x]);
      if (lost[x] == lost[x]) sum += double(lost[x]);
    }
  }

  // sum + lost is the sum of what was added, nearly: the terms of dtau cancel, by a factor of 100 or
  // more, and roundings of their sum would be most of its error. lost is NaN where sum is infinite.
  [[gnu::always_inline]] static void add_up(Vec& sum, Vec& lost, Vec term) {
    const Vec before = sum;
    sum = before + term;
    const Vec added = sum - before;
    lost += (before - (sum - added)) + (term - added);
  }

  // G~ += dy (r W)'; dv = G~ (k / W); dsa = G~ (b / W)
  template <int R>
  void along_rows(int64_t n, int64_t i) const {
    const float *r = in.ar[n][1], *k = in.bk[n][1], *b = in.bk[n][0],
                *dy = g.dy.at(run.begin + n) + row + i;
    Vec with_k[R] = {}, with_b[R] = {}, dys[R];
    for (int x = 0; x < R; ++x) dys[x] = V::splat(dy[x]);
    for (int c = 0; c < N; c += lanes) {
      const Vec rc = V::load(r + c), kc = V::load(k + c), bc = V::load(b + c);
#pragma GCC unroll 8
      for (int x = 0; x < R; ++x) {
        const Vec gradient = V::load(G(i + x) + c) + dys[x] * rc;
        V::store(G(i + x) + c, gradient);
        with_k[x] += gradient * kc;
        with_b[x] += gradient * bc;
      }
    }
    const auto dv = V::template sums<R>(with_k), dsas = V::template sums<R>(with_b);
    for (int x = 0; x < R; ++x) {
      g.dv.at(run.begin + n)[row + i + x] = dv[x];
      dsa[i + x] = dsas[x];
    }
  }

  // The sums over rows, and G~ of the token before.
  void along_columns(int64_t n) const {
    constexpr int columns = columns_together<isa, N>, vectors = columns / lanes;
    const int64_t t = run.begin + n;
    const float *dy = g.dy.at(t) + row, *v = head.v.at(t) + row, *sa_n = sa + n * backward_rows;
    for (int c = 0; c < N; c += columns) {
      Vec dr[vectors] = {}, dw[vectors] = {}, dk[vectors] = {}, da[vectors] = {}, db[vectors] = {};
      Vec a[vectors];
#pragma GCC unroll 2
      for (int x = 0; x < vectors; ++x)
        a[x] = in.entry_decay ? V::splat(0.0f) : V::load(in.ar[n][0] + c + x * lanes);
      for (int64_t i = 0; i < count; ++i) {
        const float *before = state(n, i) + c, *after = state(n + 1, i) + c;
        float* gradients = G(i) + c;
#pragma GCC unroll 2
        for (int x = 0; x < vectors; ++x) {
          const Vec gradient = V::load(gradients + x * lanes), s0 = V::load(before + x * lanes);
          dr[x] += V::load(after + x * lanes) * dy[i];
          dk[x] += gradient * v[i];
          db[x] += gradient * sa_n[i];
          da[x] += s0 * dsa[i];
          dw[x] += gradient * s0;
          V::store(gradients + x * lanes, gradient + a[x] * dsa[i]);
        }
      }
#pragma GCC unroll 2
      for (int x = 0; x < vectors; ++x) {
        const int at = c + x * lanes;
        const Vec W = V::load(scales.scale[n] + at), one_over = V::load(scales.inverse[n] + at);
        const Vec W_before = n > 0 ? V::load(scales.scale[n - 1] + at) : V::splat(1.0f);
        add(g.dr.at(t) + at, dr[x] * W);
        add(g.dk.at(t) + at, dk[x] * one_over);
        add(g.db.at(t) + at, db[x] * one_over);
        add(g.da.at(t) + at, da[x] * W_before);
        add(g.dw.at(t) + at, dw[x] * (W_before * one_over));
      }
    }
  }

  static void add(float* to, Vec value) { V::store(to, V::load(to) + value); }

  void decay_on_entry() const {
    for (int64_t i = 0; i < count; ++i)
      for (int c = 0; c < N; c += lanes)
        V::store(G(i) + c, V::load(G(i) + c) * V::load(in.entry_decay + c) +
                               V::load(in.ar[0][0] + c) * dsa[i]);
  }

  void backward() const {
    advance<isa, N, ReadOut::no>(head, in, run, {row, row + count}, {states, N, backward_rows * N},
                                 {nullptr, 0}, {sa, backward_rows});
    enter();
    for (int64_t n = in.length - 1; n >= 0; --n) {
      int64_t i = 0;
      for (; i + 4 <= count; i += 4) along_rows<4>(n, i);
      for (; i < count; ++i) along_rows<1>(n, i);
      along_columns(n);
    }
    if (in.entry_decay) decay_on_entry();
  }
};

template <int N>
[[gnu::always_inline]] inline void copy_row(float* to, const float* from) {
  for (int c = 0; c < N; ++c) to[c] = from[c];
}

}  // namespace

template <Isa isa, int N>
void backward(const Head& head, Rows rows, StridedRows<const float> initial, const Gradients& g) {
  // The state that enters each run, all rows; then one block of rows of one run, all tokens.
  const int64_t count = rows.end - rows.begin;
  float* const entering = g.scratch;
  float* const states = entering + (head.run_count + 1) * count * N;
  float* const sa = states + (longest_run + 1) * backward_rows * N;
  float* const dsa = sa + longest_run * backward_rows;
  const auto entry = [&](int64_t run, int64_t row) {
    return entering + (run * count + row - rows.begin) * N;
  };

  for (int64_t row = rows.begin; row < rows.end; ++row) copy_row<N>(entry(0, row), initial.at(row));
  for (int64_t i = 0; i + 1 < head.run_count; ++i) {
    for (int64_t row = rows.begin; row < rows.end; ++row)
      copy_row<N>(entry(i + 1, row), entry(i, row));
    advance_run<isa, N, ReadOut::no>(head, head.runs[i], rows, {entry(i + 1, 0), N}, {nullptr, 0});
  }

  RunScales<N> scales;
  const auto backward_run = [&](const RunVectors<isa, N>& in, const Run& run, int64_t i) {
    for (int64_t row = rows.begin; row < rows.end; row += backward_rows) {
      const int64_t some = rows.end - row < backward_rows ? rows.end - row : backward_rows;
      const Block<isa, N> block{head, g, in, scales, run, row, some, states, sa, dsa};
      for (int64_t x = 0; x < some; ++x) copy_row<N>(block.state(0, x), entry(i, row + x));
      block.backward();
    }
  };
  for (int64_t i = head.run_count - 1; i >= 0; --i) {
    const Run& run = head.runs[i];
    const RunVectors<isa, N> whole(head, run, DecayOnEntry::no, &scales);
    if (whole.in_range) {
      backward_run(whole, run, i);
      continue;
    }
    // Token by token from the last: the state before each is computed again from the run's start.
    // It is stored in the place of the next run's, which is no longer needed.
    for (int64_t t = run.end - 1; t >= run.begin; --t) {
      for (int64_t row = rows.begin; row < rows.end; ++row)
        copy_row<N>(entry(i + 1, row), entry(i, row));
      if (t > run.begin)
        advance_run<isa, N, ReadOut::no>(head, {run.begin, t, -1}, rows, {entry(i + 1, 0), N},
                                         {nullptr, 0});
      const Run token{t, t + 1, t + 1 == run.end ? run.chunk : -1};
      backward_run(RunVectors<isa, N>(head, token, DecayOnEntry::yes, &scales), token, i + 1);
    }
  }
}

template void backward<Isa::DELTASANE_ISA, 16>(const Head&, Rows, StridedRows<const float>,
                                               const Gradients&);
template void backward<Isa::DELTASANE_ISA, 32>(const Head&, Rows, StridedRows<const float>,
                                               const Gradients&);
template void backward<Isa::DELTASANE_ISA, 64>(const Head&, Rows, StridedRows<const float>,
                                               const Gradients&);
template void backward<Isa::DELTASANE_ISA, 128>(const Head&, Rows, StridedRows<const float>,
                                                const Gradients&);
template void backward<Isa::DELTASANE_ISA, 256>(const Head&, Rows, StridedRows<const float>,
                                                const Gradients&);

}  // namespace deltasane::kernel::cpu
