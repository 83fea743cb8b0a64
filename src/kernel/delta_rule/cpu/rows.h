// A few rows of the state advanced over a run of tokens, for files compiled per instruction set.
//
// Rows are independent: row i needs only its own S_i and v_i. So R rows are advanced together,
// which loads a token's vectors once for all of them, and S a of the next token is summed while S
// is still in a register.
//
// Inside a run the decay is taken out of the state: with W_n the product of the decays from the
// run's first token to the n-th, S~_n = S_n diag(1 / W_n) obeys
//
//     S~_n = S~_{n-1} + sa_n (b_n / W_n)' + v_n (k_n / W_n)'
//     sa_n = S~_{n-1} (a_n W_{n-1})          y_n = S~_n (r_n W_n)
//
// four multiply-adds per entry and token instead of five operations. A column is scaled as a whole,
// so rounding errors keep their relative size. A run whose decays are so small that W would leave
// the range of float is advanced a token at a time, each decay applied on entry and W = 1.
#pragma once

#include <cstdint>

#include "kernel/delta_rule/cpu/kernels.h"
#include "kernel/delta_rule/cpu/neutralize.h"
#include "kernel/simd.h"

namespace deltasane::kernel::cpu {
namespace {

// Rows at a time: accumulators for y and S a, broadcasts of S a and v, four operands, four rows of
// S.
template <Isa isa>
constexpr int rows_together = registers_of(isa) == 32 ? 4 : 2;

enum class DecayOnEntry { yes, no };

// W_n and 1 / W_n of a run's tokens.
template <int N>
struct alignas(64) RunScales {
  float scale[longest_run][N];
  float inverse[longest_run][N];
};

// A run's vectors, scaled and contiguous. In a (batch, time, head, channel) tensor they are some
// KiB apart, and often in the same few sets of the cache.
template <Isa isa, int N>
struct alignas(64) RunVectors {
  float ar[longest_run + 1][2][N];  // a_n W_{n-1}, r_n W_n; one more a, which is read and not used
  float bk[longest_run][2][N];      // b_n / W_n, k_n / W_n
  float last_scale[N];              // W of the last token
  const float* entry_decay;         // where the decay is applied on entry; otherwise null
  int64_t length;
  bool in_range = true;  // all W between 20^-16 and 20^16, far within the range of float

  RunVectors(const Head& head, const Run& run, DecayOnEntry on_entry = DecayOnEntry::no,
             RunScales<N>* scales = nullptr)
      : entry_decay(on_entry == DecayOnEntry::yes ? head.w.at(run.begin) : nullptr),
        length(run.end - run.begin) {
    for (int c = 0; c < N; ++c) ar[length][0][c] = 0, last_scale[c] = 1;
    if (scales)
      scale_run<true>(head, run, scales, [] {});
    else
      scale_run<false>(head, run, nullptr, [] {});
  }

  // Part of a run at a time, with W from the run's beginning: next() for each part.
  RunVectors() : entry_decay(nullptr), length(0) {
    for (int c = 0; c < N; ++c) last_scale[c] = 1;
  }
  // Up to `max_tokens` tokens, and zeros for missing ones. interleaved() is called twice for four
  // tokens and a vector of channels.
  template <int max_tokens, class Body>
  void next(const Head& head, const Run& part, Body interleaved) {
    length = part.end - part.begin;
    scale_run<false>(head, part, nullptr, interleaved);
    for (int64_t n = length; n < max_tokens; ++n)
      for (int c = 0; c < N; ++c) ar[n][0][c] = ar[n][1][c] = bk[n][0][c] = bk[n][1][c] = 0;
  }

 private:
  static constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  template <bool keep, class Body>
  void scale_run(const Head& head, const Run& run, RunScales<N>* scales, Body interleaved) {
    Vec least = V::splat(1.0f), most = least;
    if (entry_decay)
      return scale_tokens<1, false, keep>(head, run, 0, scales, least, most, interleaved);
    int64_t n = 0;
    for (; n + 4 <= length; n += 4)
      scale_tokens<4, true, keep>(head, run, n, scales, least, most, interleaved);
    for (; n < length; ++n)
      scale_tokens<1, true, keep>(head, run, n, scales, least, most, interleaved);
    typename V::Int inside = (least >= 0.05f) & (most <= 20.0f);
    for (int c = 0; c < N; c += lanes)  // a NaN among the decays shows here
      inside &= V::load(last_scale + c) == V::load(last_scale + c);
    in_range = V::largest(~inside & 1) == 0;
  }

  // `count` tokens from the n-th, with one division: 1 / W_{n-1} = w_n / W_n.
  template <int count, bool decays, bool keep, class Body>
  [[gnu::always_inline]] inline void scale_tokens(const Head& head, const Run& run, int64_t n,
                                                  RunScales<N>* scales, Vec& least, Vec& most,
                                                  Body interleaved) {
    const int64_t t = run.begin + n;
    for (int c = 0; c < N; c += lanes) {
      Vec w[count], W[count], before = V::load(last_scale + c);
#pragma GCC unroll 4
      for (int j = 0; j < count; ++j) {
        w[j] = decays ? V::load(head.w.at(t + j) + c) : V::splat(1.0f);
        least = w[j] < least ? w[j] : least;
        most = w[j] > most ? w[j] : most;
        V::store(ar[n + j][0] + c, V::load(head.a.at(t + j) + c) * before);
        W[j] = before * w[j];
        V::store(ar[n + j][1] + c, V::load(head.r.at(t + j) + c) * W[j]);
        before = W[j];
      }
      V::store(last_scale + c, before);
      interleaved();
      Vec inverse = 1.0f / before;
#pragma GCC unroll 4
      for (int j = count - 1; j >= 0; --j) {
        V::store(bk[n + j][1] + c, V::load(head.k.at(t + j) + c) * inverse);
        V::store(bk[n + j][0] + c, V::load(head.b.at(t + j) + c) * inverse);
        if (keep) {
          V::store(scales->scale[n + j] + c, W[j]);
          V::store(scales->inverse[n + j] + c, inverse);
        }
        inverse = inverse * w[j];
      }
      interleaved();
    }
  }
};

// Where a run's states are: the i-th row after n tokens is at first + i * row + n * token. It
// starts with S and continues with S~ (token = 0: in place); finish_run() turns S~ into S.
struct StateLayout {
  float* first;
  int64_t row, token;
};

enum class ReadOut { yes, no };

// `groups` times R rows. The groups alternate at each token: while the sums of one, which the next
// token depends on, are reduced, the other's rows are computed.
template <Isa isa, int N, int R, int groups, ReadOut read_out>
[[gnu::always_inline]] inline void advance_rows(const RunVectors<isa, N>& in, StateLayout states,
                                                StridedRows<const float> v_of, StridedRows<float> y,
                                                StridedRows<float> sa_of) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  using Vec = typename V::Vec;
  typename V::template Few<R> sa[groups];
  for (int g = 0; g < groups; ++g) {
    Vec sum[R] = {};
    for (int c = 0; c < N; c += lanes) {
      const Vec a = V::load(in.ar[0][0] + c);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        float* s = states.first + (g * R + i) * states.row + c;
        sum[i] += V::load(s) * a;
        if (in.entry_decay) V::store(s + states.token, V::load(s) * V::load(in.entry_decay + c));
      }
    }
    sa[g] = V::template sums<R>(sum);
  }
  for (int64_t n = 0; n < in.length; ++n) {
    const float *b = in.bk[n][0], *k = in.bk[n][1], *r = in.ar[n][1], *a_next = in.ar[n + 1][0];
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      // a decay on entry stores the first token's state one place further
      const float* from =
          states.first + g * R * states.row + (n == 0 && in.entry_decay ? 1 : n) * states.token;
      float* to = states.first + g * R * states.row + (n + 1) * states.token;
      Vec out[R] = {}, next[R] = {}, sas[R], vs[R];
      for (int i = 0; i < R; ++i) {
        sas[i] = V::splat(sa[g][i]);
        vs[i] = V::splat(v_of.at(n)[g * R + i]);
        if (sa_of.first) sa_of.at(n)[g * R + i] = sa[g][i];
      }
#pragma GCC unroll 4
      for (int c = 0; c < N; c += lanes) {
        const Vec bc = V::load(b + c), kc = V::load(k + c);
        const Vec rc = V::load(r + c), ac = V::load(a_next + c);
#pragma GCC unroll 8
        for (int i = 0; i < R; ++i) {
          Vec s = V::load(from + i * states.row + c);
          s = s + sas[i] * bc;
          s = s + vs[i] * kc;
          V::store(to + i * states.row + c, s);
          if (read_out == ReadOut::yes) out[i] += s * rc;
          next[i] += s * ac;
        }
      }
      if (read_out == ReadOut::yes) {
        const auto y_n = V::template sums<R>(out);
        for (int i = 0; i < R; ++i) y.at(n)[g * R + i] = y_n[i];
      }
      sa[g] = V::template sums<R>(next);
    }
  }
}

// All of `rows`; `states` starts at the first of them, and so does sa_of. The rows' v and y are
// copied too, a block of rows at a time.
template <Isa isa, int N, ReadOut read_out>
inline void advance(const Head& head, const RunVectors<isa, N>& in, const Run& run, Rows rows,
                    StateLayout states, StridedRows<float> y, StridedRows<float> sa_of) {
  constexpr int R = rows_together<isa>;
  constexpr int64_t block = 64;
  float v_block[longest_run][block], y_block[longest_run][block];
  const int64_t count = rows.end - rows.begin;
  for (int64_t first = 0; first < count; first += block) {
    const int64_t some = count - first < block ? count - first : block;
    for (int64_t n = 0; n < in.length; ++n) {
      const float* v = head.v.at(run.begin + n) + rows.begin + first;
      for (int64_t i = 0; i < some; ++i) v_block[n][i] = v[i];
    }
    const auto advance_at = [&]<int some_rows, int groups>(int64_t i) {
      advance_rows<isa, N, some_rows, groups, read_out>(
          in, {states.first + (first + i) * states.row, states.row, states.token},
          {v_block[0] + i, block}, {y_block[0] + i, block},
          {sa_of.first ? sa_of.first + first + i : nullptr, sa_of.step});
    };
    int64_t i = 0;
    for (; i + 2 * R <= some; i += 2 * R) advance_at.template operator()<R, 2>(i);
    for (; i + R <= some; i += R) advance_at.template operator()<R, 1>(i);
    for (; i < some; ++i) advance_at.template operator()<1, 1>(i);
    if (read_out == ReadOut::yes)
      for (int64_t n = 0; n < in.length; ++n)
        for (int64_t x = 0; x < some; ++x)
          y.at(run.begin + n)[rows.begin + first + x] = y_block[n][x];
  }
}

// From S~ to S, neutralized where the run ends a chunk.
template <Isa isa, int N>
inline void finish_run(const Head& head, const RunVectors<isa, N>& in, const Run& run, Rows rows,
                       StridedRows<float> state) {
  constexpr int lanes = lanes_of(isa);
  using V = Simd<lanes>;
  if (run.chunk >= 0) {
    const Neutralize<lanes> neutralize(*head.tau.at(run.chunk));
    for (int64_t row = rows.begin; row < rows.end; ++row)
      neutralize.template apply_scaled<N>(state.at(row),
                                          [&](int at) { return V::load(in.last_scale + at); });
  } else {
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (int c = 0; c < N; c += lanes)
        V::store(state.at(row) + c, V::load(state.at(row) + c) * V::load(in.last_scale + c));
  }
}

// Calls body(vectors, run) for the run, or for each of its tokens where W would leave its range.
template <Isa isa, int N, class Body>
inline void for_each_piece(const Head& head, const Run& run, Body body) {
  const RunVectors<isa, N> whole(head, run);
  if (whole.in_range) return body(whole, run);
  for (int64_t t = run.begin; t < run.end; ++t) {
    const Run token{t, t + 1, t + 1 == run.end ? run.chunk : -1};
    body(RunVectors<isa, N>(head, token, DecayOnEntry::yes), token);
  }
}

// One run of tokens, in place.
template <Isa isa, int N, ReadOut read_out>
inline void advance_run(const Head& head, const Run& run, Rows rows, StridedRows<float> state,
                        StridedRows<float> y) {
  for_each_piece<isa, N>(head, run, [&](const RunVectors<isa, N>& in, const Run& piece) {
    advance<isa, N, read_out>(head, in, piece, rows, {state.at(rows.begin), state.step, 0}, y,
                              {nullptr, 0});
    finish_run<isa, N>(head, in, piece, rows, state);
  });
}

}  // namespace
}  // namespace deltasane::kernel::cpu
