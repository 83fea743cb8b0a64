// Runs of tokens with the rows of the state in the lanes of vectors, for files compiled per
// instruction set. The decay is taken out as in cpu_rows.h; a few tokens form a group, for which
// the state is read and written once (SlabGroup).
//
// A slab holds the same few rows for every column: column c of its rows is one short stretch of
// memory. S a and y are then sums over columns that need no adding up of lanes, and v and y are
// read and written as they lie. Turning rows into slabs and back costs about as much as a token, so
// a state stays turned from run to run, and runs of one token are left to cpu_rows.h.
#pragma once

#include "kernel/delta_rule/cpu_products.h"
#include "kernel/delta_rule/cpu_rows.h"

namespace deltasane::kernel::cpu {
namespace {

// Vectors of rows in a slab; tokens of a group, which share the loads and stores of the state, and
// columns whose sums stand in registers at a time.
template <Isa isa>
constexpr int slab_vectors = 2;
template <Isa isa>
constexpr int64_t slab_rows = slab_vectors<isa>* lanes_of(isa);
template <Isa isa>
constexpr int together = registers_of(isa) == 32 ? 8 : 4;

// Brings the vectors that are needed next into the second-level cache, a few lines at a time while
// others are computed: the processor can wait for a dozen lines only. In the first level they would
// drive each other out, because often they lie in the same few sets of it. Those of a few heads are
// fetched together: they lie side by side, and long stretches let the processor run ahead itself.
template <Isa isa, int N>
class Ahead {
 public:
  static constexpr int64_t heads_together = 4;
  // Columns that are read, and blocks that are written, between two calls of some(): a run of a
  // square state calls it often enough, and at an even pace.
  static constexpr int interval = 1024 / (together<isa> * lanes_of(isa));
  static constexpr int blocks = interval / 8;

  // Of `heads` heads, of which this is the first.
  Ahead(const Head& head, int64_t heads, const Run& run, Rows rows, Track<float> y)
      : tracks_{head.w, head.a, head.r, head.k, head.b, head.v, {y.first, y.step}},
        tokens_(run.end - run.begin),
        pieces_(heads * N / piece) {
    for (auto& track : tracks_) track.first = track.at(run.begin);
    tracks_[5].first += rows.begin, tracks_[6].first += rows.begin;
    next_stretch();
  }

  // A piece more.
  [[gnu::always_inline]] inline void some() {
#pragma GCC unroll 16
    for (int line = 0; line < piece; line += 16) __builtin_prefetch(at_ + line, 0, 2);
    at_ += piece;
    if (--left_ == 0) next_stretch();
  }

 private:
  static constexpr int piece = N < 32 ? N : 32;

  // The heads' vectors of the next token, or of the next track's first; in the end the last again.
  [[gnu::always_inline]] inline void next_stretch() {
    if (token_ == tokens_ && track_ < 6) token_ = 0, ++track_;
    if (token_ < tokens_) stretch_ = tracks_[track_].at(token_++);
    at_ = stretch_;
    left_ = pieces_;
  }

  Track<const float> tracks_[7];
  int64_t tokens_, token_ = 0, pieces_, left_;
  const float *stretch_ = nullptr, *at_;
  int track_ = 0;
};

// A group of tokens of a run: products of their vectors, which all rows of the state share. Token n
// meets b and k of the tokens before it with a, and its own too with r. So r of one token and a of
// another fill a line of 2 P numbers.
template <Isa isa, int N>
class alignas(64) GroupProducts {
 public:
  GroupProducts(const RunVectors<isa, N>& in, Ahead<isa, N>& ahead) {
    alignas(64) float parts[2 * P][lanes];
    // Loops, not written out: 1.4 % of the forward's time, as so much code is read anew each time.
#pragma GCC unroll 1
    for (int n = 0; n < P; ++n) {
      const auto meet = [&](const float* reader, int sources, float(*to)[lanes]) {
#pragma GCC unroll 1
        for (int m = 0; m < sources; ++m) {
          Vec b = {}, k = {};
#pragma GCC unroll 16
          for (int c = 0; c < N; c += lanes) {
            const Vec x = V::load(reader + c);
            b += x * V::load(in.bk[m][0] + c);
            k += x * V::load(in.bk[m][1] + c);
          }
          V::store(to[2 * m], b);
          V::store(to[2 * m + 1], k);
        }
      };
      ahead.some();
      meet(in.ar[n][1], n + 1, parts);
      ahead.some();
      meet(in.ar[P - 1 - n][0], P - 1 - n, parts + 2 * n + 2);
      for (int j = 0; j < 2 * P; j += lanes)
        V::store(line_[n] + j, Turn<lanes>::sums_of_rows(parts[j]));
    }
  }

  // b_0, k_0, b_1, k_1 .. of the group with a (reader = 0) or r (1) of token n.
  [[gnu::always_inline]] inline const float* of(int n, int reader) const {
    return reader ? line_[n] : line_[P - 1 - n] + 2 * (P - n);
  }

 private:
  static constexpr int lanes = lanes_of(isa), P = together<isa>;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  float line_[P][2 * P];
};

// A slab's way through a group of tokens. With S~ the state before the group,
//     sa_n = S~ a_n + sum over earlier m of sa_m (b_m' a_n) + v_m (k_m' a_n)
//     y_n  = S~ r_n + sum over m up to n of sa_m (b_m' r_n) + v_m (k_m' r_n)
// and the state is read and written once for the group.
template <Isa isa, int N>
class SlabGroup {
 public:
  // v and y begin with the slab's first row; `some` of its rows are there.
  SlabGroup(const RunVectors<isa, N>& in, const GroupProducts<isa, N>& products,
            Ahead<isa, N>& ahead, float* slab, int64_t some)
      : in_(in), products_(products), ahead_(ahead), slab_(slab), some_(some) {}

  [[gnu::always_inline]] inline void read(Track<const float> v, Track<float> y) {
    gather(v);
    read_with<a>(y);
    read_with<r>(y);
  }

  // `leave(c, columns)` may change a few columns from c on, and stores them.
  template <class Leave>
  [[gnu::always_inline]] inline void write(Leave leave) {
    for (int c = 0; c < N; c += together<isa>) {
      Group state;
      state.load(slab_ + c * height);
      if (c / P % Ahead<isa, N>::blocks == 0) ahead_.some();
      state.add_columns(sources_[0][0], height, in_.bk[0][0] + c, N, 2 * tokens());
      if (Ahead<isa, N>::blocks == 1) ahead_.some(), ahead_.some();
      leave(c, state.sum);
    }
  }

 private:
  static constexpr int lanes = lanes_of(isa), X = slab_vectors<isa>, P = together<isa>;
  static constexpr int height = int(slab_rows<isa>);
  static constexpr int a = 0, r = 1;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;
  using Group = Sums<isa, P, X>;

  int64_t tokens() const { return in_.length; }

  [[gnu::always_inline]] inline void gather(Track<const float> v) {
    if (tokens() == P && some_ == height) {
#pragma GCC unroll 16
      for (int n = 0; n < P; ++n)
#pragma GCC unroll 4
        for (int x = 0; x < X; ++x)
          V::store(sources_[n][1] + x * lanes, V::load(v.at(n) + x * lanes));
    } else {
      for (int64_t n = 0; n < P; ++n)
        for (int64_t i = 0; i < height; ++i)
          sources_[n][1][i] = n < tokens() && i < some_ ? v.at(n)[i] : 0.0f;
    }
  }

  // sa or y of the group's tokens. Not inlined: the products would be spread over vectors for all
  // slabs before the first, and spilled.
  template <int reader>
  [[gnu::noinline]] void read_with(Track<float> y) {
    Group sums;
    sums.template add<height, 2 * N, N, Ahead<isa, N>::interval>(slab_, in_.ar[0][reader],
                                                                 [&] { ahead_.some(); });
#pragma GCC unroll 16
    for (int m = 0; m < P; ++m) {
      Vec v[X], sa[X];
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) v[x] = V::load(sources_[m][1] + x * lanes);
      hand_on<reader>(sums, m, 1, v);
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) {
        if (reader == a) V::store(sources_[m][0] + x * lanes, sums.sum[m][x]);
        sa[x] = reader == a ? sums.sum[m][x] : V::load(sources_[m][0] + x * lanes);
      }
      hand_on<reader>(sums, m, 0, sa);
    }
    if constexpr (reader == r) put(sums, y);
  }

  // What tokens get from sa (which = 0) or v of token m.
  template <int reader>
  [[gnu::always_inline]] inline void hand_on(Group& sums, int m, int which,
                                             const Vec (&source)[X]) {
#pragma GCC unroll 16
    for (int n = reader == a ? m + 1 : m; n < P; ++n)
      sums.add_to(n, source, products_.of(n, reader)[2 * m + which]);
  }

  [[gnu::always_inline]] inline void put(const Group& out, Track<float> y) {
    if (some_ == height) {
#pragma GCC unroll 16
      for (int n = 0; n < P; ++n)
        if (n < tokens())
#pragma GCC unroll 4
          for (int x = 0; x < X; ++x) V::store(y.at(n) + x * lanes, out.sum[n][x]);
    } else {
      for (int n = 0; n < tokens(); ++n)
        for (int64_t i = 0; i < some_; ++i) y.at(n)[i] = out.sum[n][i / lanes][i % lanes];
    }
  }

  const RunVectors<isa, N>& in_;
  const GroupProducts<isa, N>& products_;
  Ahead<isa, N>& ahead_;
  float* slab_;
  int64_t some_;
  alignas(64) float sources_[P][2][height];  // sa and v of the group's tokens
};

// Some rows of a state, as rows or as slabs.
template <Isa isa, int N>
class TurningState {
 public:
  void begin(Track<float> state, Rows rows, float* slabs) {
    state_ = state, rows_ = rows, slabs_ = slabs, turned_ = false;
  }

  void take(const Head& head, const Run& run, Track<float> y, Ahead<isa, N>& ahead) {
    if (run.end - run.begin == 1) return take_rows(head, run, y);
    RunVectors<isa, N> in;
    for (int64_t begin = run.begin; begin < run.end; begin += together<isa>) {
      alignas(64) float scale[N];  // from S~ to S before the group
      for (int c = 0; c < N; ++c) scale[c] = in.last_scale[c];
      const bool last = run.end - begin <= together<isa>;
      const Run part{begin, last ? run.end : begin + together<isa>, last ? run.chunk : -1};
      in.template next<together<isa>>(head, part, [&] { ahead.some(); });
      if (!in.in_range) return take_rows(head, {begin, run.end, run.chunk}, y, scale);
      as_slabs();
      const GroupProducts<isa, N> products(in, ahead);
      for (int64_t first = rows_.begin; first < rows_.end; first += height) {
        float* slab = slabs_ + (first - rows_.begin) * N;
        SlabGroup<isa, N> group(in, products, ahead, slab,
                                rows_.end - first < height ? rows_.end - first : height);
        group.read({head.v.at(begin) + first, head.v.step}, {y.at(begin) + first, y.step});
        if (!last)
          group.write([&](int c, const Columns& columns) { store(columns, slab + c * height); });
        else
          leave(head, run, in, group, slab);
      }
    }
  }

  void as_rows() {
    if (turned_) turn<false>();
    turned_ = false;
  }

 private:
  static constexpr int64_t height = slab_rows<isa>;

  void as_slabs() {
    if (!turned_) {
      const int64_t slabs = (rows_.end - rows_.begin + height - 1) / height;
      if (slabs * height != rows_.end - rows_.begin)  // rows that do not fill a slab
        for (int64_t i = (slabs - 1) * height * N; i < slabs * height * N; ++i) slabs_[i] = 0;
      turn<true>();
    }
    turned_ = true;
  }

  // Whole blocks of lanes by lanes, and the rows that are left one entry at a time.
  template <bool to_slabs>
  void turn() {
    constexpr int lanes = lanes_of(isa);
    const int64_t count = rows_.end - rows_.begin;
    int64_t i = 0;
    const auto slab_of = [&](int64_t row) {
      return slabs_ + row / height * height * N + row % height;
    };
    for (; i + lanes <= count; i += lanes)
      for (int c = 0; c < N; c += lanes) {
        float *rows = state_.at(rows_.begin + i) + c, *slab = slab_of(i) + c * height;
        if (to_slabs)
          Turn<lanes>::block(rows, state_.step, slab, height);
        else
          Turn<lanes>::block(slab, height, rows, state_.step);
      }
    for (; i < count; ++i)
      for (int c = 0; c < N; ++c) {
        float &entry = state_.at(rows_.begin + i)[c], &slab_entry = slab_of(i)[c * height];
        (to_slabs ? slab_entry : entry) = to_slabs ? entry : slab_entry;
      }
  }

  using Columns = decltype(Sums<isa, together<isa>, slab_vectors<isa>>::sum);
  using V = Simd<lanes_of(isa)>;

  [[gnu::always_inline]] static inline void store(const Columns& columns, float* to) {
#pragma GCC unroll 16
    for (int i = 0; i < together<isa> * slab_vectors<isa>; ++i)
      V::store(to + i * lanes_of(isa), columns[i / slab_vectors<isa>][i % slab_vectors<isa>]);
  }

  // From S~ to S, neutralized where the run ends a chunk.
  [[gnu::always_inline]] inline void leave(const Head& head, const Run& run,
                                           const RunVectors<isa, N>& in, SlabGroup<isa, N>& group,
                                           float* slab) {
    const auto scale = [&](int c, Columns& columns) {
#pragma GCC unroll 16
      for (int p = 0; p < together<isa>; ++p)
#pragma GCC unroll 4
        for (auto& column : columns[p]) column *= in.last_scale[c + p];
    };
    if (run.chunk >= 0) {
      const Neutralize<lanes_of(isa)> neutralize(*head.tau.at(run.chunk));
      group.write([&](int c, Columns& columns) {
        scale(c, columns);
        neutralize.store(columns, slab + c * height);
      });
    } else {
      group.write([&](int c, Columns& columns) {
        scale(c, columns);
        store(columns, slab + c * height);
      });
    }
  }

  // In the middle of a run the state comes as S~.
  void take_rows(const Head& head, const Run& run, Track<float> y, const float* scale = nullptr) {
    as_rows();
    for (int64_t i = rows_.begin; scale && i < rows_.end; ++i)
      for (int c = 0; c < N; ++c) state_.at(i)[c] *= scale[c];
    take_run<isa, N, ReadOut::yes>(head, run, rows_, state_, y);
  }

  Track<float> state_;
  Rows rows_;
  bool turned_;
  float* slabs_;
};

}  // namespace
}  // namespace deltasane::kernel::cpu
