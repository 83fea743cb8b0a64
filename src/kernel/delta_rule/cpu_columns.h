// Runs of tokens with the rows of the state in the lanes of vectors, for files compiled per
// instruction set. The arithmetic is that of cpu_rows.h.
//
// A slab holds the same few rows for every column: column c of its rows is one short stretch of
// memory. S a and y are then sums over columns that need no adding up of lanes, and v and y are
// read and written as they lie. Turning rows into slabs and back costs about as much as a token, so
// a state stays turned from run to run, and runs of one token are left to cpu_rows.h.
#pragma once

#include "kernel/delta_rule/cpu_rows.h"

namespace deltasane::kernel::cpu {
namespace {

// Vectors of rows in a slab, and tokens at a time, which share the loads and stores of the state.
template <Isa isa>
constexpr int slab_vectors = 2;
template <Isa isa>
constexpr int64_t slab_rows = slab_vectors<isa>* lanes_of(isa);
template <Isa isa>
constexpr int slab_tokens = registers_of(isa) == 32 ? 2 : 1;

// Brings the vectors of the next run's tokens into the second-level cache, a few at a time while
// this run is computed: the processor can wait for a dozen lines only. In the first level they
// would drive each other out, because often they lie in the same few sets of it.
template <int N>
class NextRun {
 public:
  // `calls`: how often some() will be called.
  NextRun(const Head& head, const Run& run, Rows rows, Track<float> y, int64_t calls)
      : tracks_{head.r, head.w, head.k, head.a, head.b, head.v, {y.first, y.step}},
        rows_(rows),
        token_(run.end),
        end_(run.end + longest_run),
        each_((longest_run * 7 + calls - 1) / calls) {}

  void some() {
    for (int64_t i = 0; i < each_ && token_ < end_; ++i) {
      const bool keys = track_ < 5;
      const float* vector = tracks_[track_].at(token_);
      for (int64_t at = keys ? 0 : rows_.begin; at < (keys ? N : rows_.end); at += 16)
        __builtin_prefetch(vector + at, 0, 2);  // any address will do
      track_ = track_ == 6 ? 0 : track_ + 1;
      token_ += track_ == 0;
    }
  }

 private:
  Track<const float> tracks_[7];
  Rows rows_;
  int64_t token_, end_, each_;
  int track_ = 0;
};

// What the second token of a pair needs of the first: with S the state before the pair,
//     S_n a_{n+1} = S a_{n+1} + sa_n (b_n' a_{n+1}) + v_n (k_n' a_{n+1})
template <Isa isa, int N>
struct PairProducts {
  float b[longest_run], k[longest_run];  // of the pair that begins with the n-th token

  explicit PairProducts(const RunVectors<isa, N>& in) {
    using V = Simd<lanes_of(isa)>;
    if constexpr (slab_tokens<isa> == 2)
      for (int64_t n = 0; n + 2 <= in.length; n += 2) {
        typename V::Vec with_b = {}, with_k = {};
        for (int c = 0; c < N; c += lanes_of(isa)) {
          const auto a = V::load(in.a[n + 1] + c);
          with_b += V::load(in.b[n] + c) * a;
          with_k += V::load(in.k[n] + c) * a;
        }
        b[n] = V::sum(with_b), k[n] = V::sum(with_k);
      }
  }
};

// A slab's way through a run. v_of and y begin with the slab's first row.
template <Isa isa, int N>
class SlabRun {
 public:
  SlabRun(const RunVectors<isa, N>& in, const PairProducts<isa, N>& products, NextRun<N>& ahead,
          float* slab, Track<const float> v_of, Track<float> y)
      : in_(in), products_(products), ahead_(ahead), slab_(slab), v_of_(v_of), y_(y) {}

  static int64_t calls(int64_t length) { return (length + P - 1) / P; }

  [[gnu::always_inline]] inline void advance() {
    enter();
    int64_t n = 0;
    if constexpr (P == 2)
      for (; n + 2 <= in_.length; n += 2) take<2>(n);
    for (; n < in_.length; ++n) take<1>(n);
  }

 private:
  static constexpr int lanes = lanes_of(isa), X = slab_vectors<isa>, P = slab_tokens<isa>;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  // sa_: S times a of the next P tokens, S being what the next token finds.
  [[gnu::always_inline]] inline void enter() {
    for (int c = 0; c < N; ++c) {
      float* column = slab_ + c * X * lanes;
      for (int x = 0; x < X; ++x) {
        const Vec s = V::load(column + x * lanes);
        for (int p = 0; p < P; ++p) sa_[p][x] += s * in_.a[p][c];
        if (in_.entry_decay) V::store(column + x * lanes, s * in_.entry_decay[c]);
      }
    }
  }

  template <int tokens>
  [[gnu::always_inline]] inline void take(int64_t n) {
    ahead_.some();
    Vec v[tokens][X], sa[tokens][X], out[tokens][X] = {}, next[P][X] = {};
    for (int x = 0; x < X; ++x) {
      for (int p = 0; p < tokens; ++p) {
        v[p][x] = V::load(v_of_.at(n + p) + x * lanes);
        sa[p][x] = sa_[p][x];
      }
      if (tokens == 2) sa[1][x] += sa[0][x] * products_.b[n] + v[0][x] * products_.k[n];
    }
#pragma GCC unroll 2
    for (int c = 0; c < N; ++c) {
      float* column = slab_ + c * X * lanes;
      Vec s[X];
#pragma GCC unroll 2
      for (int x = 0; x < X; ++x) s[x] = V::load(column + x * lanes);
#pragma GCC unroll 2
      for (int p = 0; p < tokens; ++p) {
        const Vec b = V::splat(in_.b[n + p][c]), k = V::splat(in_.k[n + p][c]);
        const Vec r = V::splat(in_.r[n + p][c]);
#pragma GCC unroll 2
        for (int x = 0; x < X; ++x) {
          s[x] += sa[p][x] * b;
          s[x] += v[p][x] * k;
          out[p][x] += s[x] * r;
        }
      }
#pragma GCC unroll 2
      for (int x = 0; x < X; ++x) V::store(column + x * lanes, s[x]);
#pragma GCC unroll 2
      for (int p = 0; p < P; ++p) {
        const Vec a = V::splat(in_.a[n + tokens + p][c]);
#pragma GCC unroll 2
        for (int x = 0; x < X; ++x) next[p][x] += s[x] * a;
      }
    }
    for (int x = 0; x < X; ++x) {
      for (int p = 0; p < tokens; ++p) V::store(y_.at(n + p) + x * lanes, out[p][x]);
      for (int p = 0; p < P; ++p) sa_[p][x] = next[p][x];
    }
  }

  const RunVectors<isa, N>& in_;
  const PairProducts<isa, N>& products_;
  NextRun<N>& ahead_;
  float* slab_;
  Track<const float> v_of_;
  Track<float> y_;
  Vec sa_[P][X] = {};
};

// From S~ to S, neutralized where the run ends a chunk.
template <Isa isa, int N>
inline void leave_slab(const Head& head, const RunVectors<isa, N>& in, const Run& run,
                       float* slab) {
  constexpr int lanes = lanes_of(isa);
  constexpr int count = N * slab_rows<isa>;
  using V = Simd<lanes>;
  const auto scale = [&](int at) { return V::splat(in.last_scale[at / slab_rows<isa>]); };
  if (run.chunk >= 0) {
    Neutralize<lanes>(*head.tau.at(run.chunk)).template scaled<count>(slab, scale);
  } else {
    for (int at = 0; at < count; at += lanes) V::store(slab + at, V::load(slab + at) * scale(at));
  }
}

// Some rows of a state, as rows or as slabs.
template <Isa isa, int N>
class TurningState {
 public:
  static constexpr int64_t most_rows = 64;

  TurningState(Track<float> state, Rows rows) : state_(state), rows_(rows) {}

  void take(const Head& head, const Run& run, Track<float> y) {
    if (run.end - run.begin == 1) {
      as_rows();
      return take_run<isa, N, ReadOut::yes>(head, run, rows_, state_, y);
    }
    as_slabs();
    const int64_t slabs = (rows_.end - rows_.begin + height - 1) / height;
    NextRun<N> ahead(head, run, rows_, y, slabs * SlabRun<isa, N>::calls(run.end - run.begin));
    in_pieces<isa, N>(head, run, [&](const RunVectors<isa, N>& in, const Run& piece) {
      const PairProducts<isa, N> products(in);
      for (int64_t first = rows_.begin; first < rows_.end; first += height) {
        float* slab = slabs_ + (first - rows_.begin) * N;
        if (first + height <= rows_.end)
          SlabRun<isa, N>(in, products, ahead, slab, {head.v.at(piece.begin) + first, head.v.step},
                          {y.at(piece.begin) + first, y.step})
              .advance();
        else
          advance_last(head, in, products, ahead, piece, slab, first, y);
        leave_slab(head, in, piece, slab);
      }
    });
  }

  void as_rows() {
    if (turned_) each_entry([](float& entry, float& slab_entry) { entry = slab_entry; });
    turned_ = false;
  }

 private:
  static constexpr int64_t height = slab_rows<isa>;

  void as_slabs() {
    if (!turned_) each_entry([](float& entry, float& slab_entry) { slab_entry = entry; });
    turned_ = true;
  }

  template <class Body>
  void each_entry(Body body) {
    for (int64_t row = rows_.begin; row < rows_.end; ++row) {
      const int64_t i = row - rows_.begin;
      float* slab = slabs_ + i / height * height * N + i % height;
      for (int c = 0; c < N; ++c) body(state_.at(row)[c], slab[c * height]);
    }
  }

  // Rows that do not fill a slab: the others hold zeros, with v = 0.
  [[gnu::noinline]] void advance_last(const Head& head, const RunVectors<isa, N>& in,
                                      const PairProducts<isa, N>& products, NextRun<N>& ahead,
                                      const Run& piece, float* slab, int64_t first,
                                      Track<float> y) {
    float v_some[longest_run][height] = {}, y_some[longest_run][height];
    const int64_t some = rows_.end - first;
    for (int64_t n = 0; n < in.length; ++n)
      for (int64_t i = 0; i < some; ++i) v_some[n][i] = head.v.at(piece.begin + n)[first + i];
    SlabRun<isa, N>(in, products, ahead, slab, {v_some[0], height}, {y_some[0], height}).advance();
    for (int64_t n = 0; n < in.length; ++n)
      for (int64_t i = 0; i < some; ++i) y.at(piece.begin + n)[first + i] = y_some[n][i];
  }

  Track<float> state_;
  Rows rows_;
  bool turned_ = false;
  alignas(64) float slabs_[N * most_rows] = {};
};

}  // namespace
}  // namespace deltasane::kernel::cpu
