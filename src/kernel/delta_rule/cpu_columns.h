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

// Brings the vectors that are needed next into the second-level cache, a few at a time while
// others are computed: the processor can wait for a dozen lines only. In the first level they would
// drive each other out, because often they lie in the same few sets of it.
template <Isa isa, int N>
class Ahead {
 public:
  // Columns between two calls of some(), so that a run of a square state calls it often enough.
  static constexpr int interval = 1024 / (together<isa> * lanes_of(isa));

  Ahead(const Head& head, const Run& run, Rows rows, Track<float> y)
      : tracks_{head.w, head.a, head.r, head.k, head.b, head.v, {y.first, y.step}} {
    for (auto& track : tracks_) track.first = track.at(run.begin);
    tracks_[5].first += rows.begin, tracks_[6].first += rows.begin;
    left_ = 7 * (run.end - run.begin);
  }

  // One more vector.
  [[gnu::always_inline]] inline void some() {
    if (left_-- <= 0) return;
    Track<const float>& track = tracks_[next_];
#pragma GCC unroll 16
    for (int line = 0; line < N; line += 16) __builtin_prefetch(track.first + line, 0, 2);
    track.first += track.step;
    next_ = next_ == 6 ? 0 : next_ + 1;
  }

 private:
  Track<const float> tracks_[7];
  int64_t left_;
  int next_ = 0;
};

// A group of tokens of a run: products of their vectors, which all rows of the state share.
template <Isa isa, int N>
struct alignas(64) GroupProducts {
  static constexpr int lanes = lanes_of(isa), P = together<isa>;

  float of[P][2][2 * P];  // a and r of a token, with b_0, k_0, b_1, k_1 .. of the group

  GroupProducts(const RunVectors<isa, N>& in, int64_t t) {
    constexpr int width = 2 * P;
    alignas(64) float turned[N * width];  // b_0, k_0 .. by channel
    for (int j = 0; j < width; j += lanes)
      for (int c = 0; c < N; c += lanes)
        Turn<lanes>::block(in.bk[t][0] + j * N + c, N, turned + c * width + j, width);
    for (int j = 0; j < width; j += lanes) {
      Sums<isa, 2 * P, 1> sums;
      sums.template add<width, N, N, N>(turned + j, in.ar[t][0], [] {});
#pragma GCC unroll 16
      for (int p = 0; p < 2 * P; ++p) Simd<lanes>::store(of[p / 2][p % 2] + j, sums.sum[p][0]);
    }
  }
};

// A slab's way through a group of tokens. With S~ the state before the group,
//     sa_n = S~ a_n + sum over earlier m of sa_m (b_m' a_n) + v_m (k_m' a_n)
//     y_n  = S~ r_n + sum over m up to n of sa_m (b_m' r_n) + v_m (k_m' r_n)
// and the state is read and written once for the group.
template <Isa isa, int N>
class SlabGroup {
 public:
  // v and y begin with the slab's first row; `some` of its rows are there.
  SlabGroup(const RunVectors<isa, N>& in, int64_t t, const GroupProducts<isa, N>& products,
            Ahead<isa, N>& ahead, float* slab, int64_t some)
      : in_(in), t_(t), products_(products), ahead_(ahead), slab_(slab), some_(some) {}

  [[gnu::always_inline]] inline void read(Track<const float> v, Track<float> y) {
    gather(v);
    Group sa;
    sa.template add<height, 2 * N, N, interval>(slab_, in_.ar[t_][0], [&] { ahead_.some(); });
    add_earlier<1, 1>(sa, 0);
#pragma GCC unroll 16
    for (int m = 0; m < P; ++m) {
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) V::store(sources_[m][0] + x * lanes, sa.sum[m][x]);
#pragma GCC unroll 16
      for (int n = m + 1; n < P; ++n) sa.add_to(n, sa.sum[m], products_.of[n][0][2 * m]);
    }
    Group out;
    out.template add<height, 2 * N, N, interval>(slab_, in_.ar[t_][1], [&] { ahead_.some(); });
    add_earlier<0, 1>(out, 1);
    add_earlier<0, 0>(out, 1);
    put(out, y);
  }

  // `leave(c, columns)` may change P columns from c on, and stores them.
  template <class Leave>
  [[gnu::always_inline]] inline void write(Leave leave) {
    for (int c = 0; c < N; c += P) {
      Group state;
      state.load(slab_ + c * height);
      if (c % turn == 0) ahead_.some();
      state.add_columns(sources_[0][0], height, in_.bk[t_][0] + c, N, 2 * tokens());
      if (turn < P) ahead_.some();
      leave(c, state.sum);
    }
  }

 private:
  static constexpr int lanes = lanes_of(isa), X = slab_vectors<isa>, P = together<isa>;
  static constexpr int height = int(slab_rows<isa>), interval = Ahead<isa, N>::interval;
  static constexpr int turn = interval * P / 16;  // columns between two calls of Ahead::some()
  using V = Simd<lanes>;
  using Vec = typename V::Vec;
  using Group = Sums<isa, P, X>;

  int64_t tokens() const { return in_.length - t_ < P ? in_.length - t_ : P; }

  [[gnu::always_inline]] inline void gather(Track<const float> v) {
    for (int64_t n = 0; n < P; ++n) {
      float* to = sources_[n][1];
      if (n < tokens() && some_ == height)
        for (int i = 0; i < height; i += lanes) V::store(to + i, V::load(v.at(n) + i));
      else
        for (int64_t i = 0; i < height; ++i) to[i] = n < tokens() && i < some_ ? v.at(n)[i] : 0.0f;
    }
  }

  // What tokens get from those `least` or more before them in the group, by sa (which = 0) or v.
  template <int least, int which>
  [[gnu::always_inline]] inline void add_earlier(Group& group, int reader) {
#pragma GCC unroll 16
    for (int m = 0; m + least < P; ++m) {
      Vec source[X];
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) source[x] = V::load(sources_[m][which] + x * lanes);
#pragma GCC unroll 16
      for (int n = m + least; n < P; ++n)
        group.add_to(n, source, products_.of[n][reader][2 * m + which]);
    }
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
  int64_t t_;  // the group's first token
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
    RunVectors<isa, N> in(head, run);
    if (!in.in_range) return take_rows(head, run, y);
    as_slabs();
    in.clear_rest();
    for (int64_t t = 0; t < in.length; t += together<isa>) {
      const GroupProducts<isa, N> products(in, t);
      for (int64_t first = rows_.begin; first < rows_.end; first += height) {
        float* slab = slabs_ + (first - rows_.begin) * N;
        SlabGroup<isa, N> group(in, t, products, ahead, slab,
                                rows_.end - first < height ? rows_.end - first : height);
        group.read({head.v.at(run.begin + t) + first, head.v.step},
                   {y.at(run.begin + t) + first, y.step});
        if (t + together<isa> < in.length)
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

  void take_rows(const Head& head, const Run& run, Track<float> y) {
    as_rows();
    take_run<isa, N, ReadOut::yes>(head, run, rows_, state_, y);
  }

  Track<float> state_;
  Rows rows_;
  bool turned_;
  float* slabs_;
};

}  // namespace
}  // namespace deltasane::kernel::cpu
