// Runs of tokens with the rows of the state in the lanes of vectors, for files compiled per
// instruction set. The decay is taken out as in rows.h; a few tokens form a group, for which
// the state is read and written once (SlabGroup).
//
// A slab holds the same few rows for every column: column c of its rows is contiguous. S a and y
// are then sums over columns without horizontal additions, and v and y are read and written
// directly. Transposing rows into slabs and back costs about as much as a token, so a state stays
// in slabs from run to run, and runs of one token are left to rows.h.
#pragma once

#include "kernel/delta_rule/cpu/products.h"
#include "kernel/delta_rule/cpu/rows.h"

namespace deltasane::kernel::cpu {
namespace {

// Vectors of rows in a slab; tokens of a group, which share the loads and stores of the state, and
// columns whose sums are in registers at a time.
template <Isa isa>
constexpr int slab_vectors = 2;
template <Isa isa>
constexpr int64_t slab_rows = slab_vectors<isa>* lanes_of(isa);
static_assert(split_rows % slab_rows<Isa::DELTASANE_ISA> == 0);
template <Isa isa>
constexpr int group_tokens = registers_of(isa) == 32 ? 8 : 4;

// Prefetches the next vectors into L2, a few cache lines at a time between computations: a
// processor has a dozen outstanding misses. In L1 they would evict each other, because they often
// map to the same few sets. The vectors of a few heads are prefetched together: they are
// contiguous, and long ranges start the hardware prefetcher too.
template <Isa isa, int N>
class Prefetcher {
 public:
  static constexpr int64_t heads_together = 4;
  // Columns that are read, and blocks that are written, between two calls of step(): a run of a
  // square state calls it often enough, and evenly.
  static constexpr int interval = 1024 / (group_tokens<isa> * lanes_of(isa));
  static constexpr int blocks = interval / 8;

  // For `heads` heads, of which this is the first.
  Prefetcher(const Head& head, int64_t heads, const Run& run, Rows rows, StridedRows<float> y)
      : inputs_{head.w, head.a, head.r, head.k, head.b, head.v, {y.first, y.step}},
        tokens_(run.end - run.begin),
        pieces_(heads * N / piece) {
    for (auto& input : inputs_) input.first = input.at(run.begin);
    inputs_[5].first += rows.begin, inputs_[6].first += rows.begin;
    next_range();
  }

  // Prefetches one more piece.
  [[gnu::always_inline]] inline void step() {
#pragma GCC unroll 16
    for (int line = 0; line < piece; line += 16) __builtin_prefetch(at_ + line, 0, 2);
    at_ += piece;
    if (--left_ == 0) next_range();
  }

 private:
  static constexpr int piece = N < 32 ? N : 32;

  // The heads' vectors of the next token, or of the first token of the next input; at the end the
  // last ones again.
  [[gnu::always_inline]] inline void next_range() {
    if (token_ == tokens_ && input_ < 6) token_ = 0, ++input_;
    if (token_ < tokens_) range_ = inputs_[input_].at(token_++);
    at_ = range_;
    left_ = pieces_;
  }

  StridedRows<const float> inputs_[7];
  int64_t tokens_, token_ = 0, pieces_, left_;
  const float *range_ = nullptr, *at_;
  int input_ = 0;
};

// A group of tokens of a run: products of their vectors, which all rows of the state share. a of
// token n is multiplied with b and k of the tokens before it, r with its own too. So r of one token
// and a of another fill a line of 2 P numbers.
template <Isa isa, int N>
class alignas(64) GroupProducts {
 public:
  GroupProducts(const RunVectors<isa, N>& in, Prefetcher<isa, N>& prefetcher) {
    alignas(64) float parts[2 * P][lanes];
    // Not unrolled: worth 1.4 % of the forward's time, by fewer misses of the instruction cache.
#pragma GCC unroll 1
    for (int n = 0; n < P; ++n) {
      const auto multiply = [&](const float* reader, int sources, float(*to)[lanes]) {
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
      prefetcher.step();
      multiply(in.ar[n][1], n + 1, parts);
      prefetcher.step();
      multiply(in.ar[P - 1 - n][0], P - 1 - n, parts + 2 * n + 2);
      for (int j = 0; j < 2 * P; j += lanes)
        V::store(line_[n] + j, Transpose<lanes>::sums_of_rows(parts[j]));
    }
  }

  // b_0, k_0, b_1, k_1 .. of the group with a (reader = 0) or r (1) of token n.
  [[gnu::always_inline]] inline const float* of(int n, int reader) const {
    return reader ? line_[n] : line_[P - 1 - n] + 2 * (P - n);
  }

 private:
  static constexpr int lanes = lanes_of(isa), P = group_tokens<isa>;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  float line_[P][2 * P];
};

// A slab advanced over a group of tokens. With S~ the state before the group,
//     sa_n = S~ a_n + sum over earlier m of sa_m (b_m' a_n) + v_m (k_m' a_n)
//     y_n  = S~ r_n + sum over m up to n of sa_m (b_m' r_n) + v_m (k_m' r_n)
// and the state is read and written once for the group.
template <Isa isa, int N>
class SlabGroup {
 public:
  // v and y begin with the slab's first row; `some` of its rows exist.
  SlabGroup(const RunVectors<isa, N>& in, const GroupProducts<isa, N>& products,
            Prefetcher<isa, N>& prefetcher, float* slab, int64_t some)
      : in_(in), products_(products), prefetcher_(prefetcher), slab_(slab), some_(some) {}

  [[gnu::always_inline]] inline void read(StridedRows<const float> v, StridedRows<float> y) {
    gather(v);
    read_with<a>(y);
    read_with<r>(y);
  }

  // finish(c, columns) may change a few columns from c on, and stores them.
  template <class Finish>
  [[gnu::always_inline]] inline void write(Finish finish) {
    for (int c = 0; c < N; c += group_tokens<isa>) {
      Group state;
      state.load(slab_ + c * height);
      if (c / P % Prefetcher<isa, N>::blocks == 0) prefetcher_.step();
      state.add_columns(sources_[0][0], height, in_.bk[0][0] + c, N, 2 * tokens());
      if (Prefetcher<isa, N>::blocks == 1) prefetcher_.step(), prefetcher_.step();
      finish(c, state.sum);
    }
  }

 private:
  static constexpr int lanes = lanes_of(isa), X = slab_vectors<isa>, P = group_tokens<isa>;
  static constexpr int height = int(slab_rows<isa>);
  static constexpr int a = 0, r = 1;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;
  using Group = Sums<isa, P, X>;

  int64_t tokens() const { return in_.length; }

  [[gnu::always_inline]] inline void gather(StridedRows<const float> v) {
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

  // sa or y of the group's tokens. Not inlined: the products would be broadcast into vectors for
  // all slabs before the first, and spilled.
  template <int reader>
  [[gnu::noinline]] void read_with(StridedRows<float> y) {
    Group sums;
    sums.template add<height, 2 * N, N, Prefetcher<isa, N>::interval>(slab_, in_.ar[0][reader],
                                                                      [&] { prefetcher_.step(); });
#pragma GCC unroll 16
    for (int m = 0; m < P; ++m) {
      Vec v[X], sa[X];
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) v[x] = V::load(sources_[m][1] + x * lanes);
      propagate<reader>(sums, m, 1, v);
#pragma GCC unroll 4
      for (int x = 0; x < X; ++x) {
        if (reader == a) V::store(sources_[m][0] + x * lanes, sums.sum[m][x]);
        sa[x] = reader == a ? sums.sum[m][x] : V::load(sources_[m][0] + x * lanes);
      }
      propagate<reader>(sums, m, 0, sa);
    }
    if constexpr (reader == r) store(sums, y);
  }

  // What later tokens get from sa (which = 0) or v of token m.
  template <int reader>
  [[gnu::always_inline]] inline void propagate(Group& sums, int m, int which,
                                               const Vec (&source)[X]) {
#pragma GCC unroll 16
    for (int n = reader == a ? m + 1 : m; n < P; ++n)
      sums.add_to(n, source, products_.of(n, reader)[2 * m + which]);
  }

  [[gnu::always_inline]] inline void store(const Group& out, StridedRows<float> y) {
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
  Prefetcher<isa, N>& prefetcher_;
  float* slab_;
  int64_t some_;
  alignas(64) float sources_[P][2][height];  // sa and v of the group's tokens
};

// Some rows of a state, in place as rows or in scratch memory as slabs.
template <Isa isa, int N>
class SlabState {
 public:
  void begin(StridedRows<float> state, Rows rows, float* slabs) {
    state_ = state, rows_ = rows, slabs_ = slabs, in_slabs_ = false;
  }

  void advance(const Head& head, const Run& run, StridedRows<float> y,
               Prefetcher<isa, N>& prefetcher) {
    if (run.end - run.begin == 1) return advance_as_rows(head, run, y);
    RunVectors<isa, N> in;
    for (int64_t begin = run.begin; begin < run.end; begin += group_tokens<isa>) {
      alignas(64) float scale[N];  // from S~ to S before the group
      for (int c = 0; c < N; ++c) scale[c] = in.last_scale[c];
      const bool last = run.end - begin <= group_tokens<isa>;
      const Run part{begin, last ? run.end : begin + group_tokens<isa>, last ? run.chunk : -1};
      in.template next<group_tokens<isa>>(head, part, [&] { prefetcher.step(); });
      if (!in.in_range) return advance_as_rows(head, {begin, run.end, run.chunk}, y, scale);
      to_slabs();
      const GroupProducts<isa, N> products(in, prefetcher);
      for (int64_t first = rows_.begin; first < rows_.end; first += height) {
        float* slab = slabs_ + (first - rows_.begin) * N;
        SlabGroup<isa, N> group(in, products, prefetcher, slab,
                                rows_.end - first < height ? rows_.end - first : height);
        group.read({head.v.at(begin) + first, head.v.step}, {y.at(begin) + first, y.step});
        if (!last)
          group.write([&](int c, const Columns& columns) { store(columns, slab + c * height); });
        else
          finish(head, run, in, group, slab);
      }
    }
  }

  void to_rows() {
    if (in_slabs_) transpose<false>();
    in_slabs_ = false;
  }

 private:
  static constexpr int64_t height = slab_rows<isa>;

  void to_slabs() {
    if (!in_slabs_) {
      const int64_t slabs = (rows_.end - rows_.begin + height - 1) / height;
      if (slabs * height != rows_.end - rows_.begin)  // rows that do not fill a slab
        for (int64_t i = (slabs - 1) * height * N; i < slabs * height * N; ++i) slabs_[i] = 0;
      transpose<true>();
    }
    in_slabs_ = true;
  }

  // Whole blocks of lanes by lanes, and the remaining rows entry by entry.
  template <bool into_slabs>
  void transpose() {
    constexpr int lanes = lanes_of(isa);
    const int64_t count = rows_.end - rows_.begin;
    int64_t i = 0;
    const auto slab_of = [&](int64_t row) {
      return slabs_ + row / height * height * N + row % height;
    };
    for (; i + lanes <= count; i += lanes)
      for (int c = 0; c < N; c += lanes) {
        float *rows = state_.at(rows_.begin + i) + c, *slab = slab_of(i) + c * height;
        if (into_slabs)
          Transpose<lanes>::block(rows, state_.step, slab, height);
        else
          Transpose<lanes>::block(slab, height, rows, state_.step);
      }
    for (; i < count; ++i)
      for (int c = 0; c < N; ++c) {
        float &entry = state_.at(rows_.begin + i)[c], &slab_entry = slab_of(i)[c * height];
        (into_slabs ? slab_entry : entry) = into_slabs ? entry : slab_entry;
      }
  }

  using Columns = decltype(Sums<isa, group_tokens<isa>, slab_vectors<isa>>::sum);
  using V = Simd<lanes_of(isa)>;

  [[gnu::always_inline]] static inline void store(const Columns& columns, float* to) {
#pragma GCC unroll 16
    for (int i = 0; i < group_tokens<isa> * slab_vectors<isa>; ++i)
      V::store(to + i * lanes_of(isa), columns[i / slab_vectors<isa>][i % slab_vectors<isa>]);
  }

  // From S~ to S, neutralized where the run ends a chunk.
  [[gnu::always_inline]] inline void finish(const Head& head, const Run& run,
                                            const RunVectors<isa, N>& in, SlabGroup<isa, N>& group,
                                            float* slab) {
    const auto scale = [&](int c, Columns& columns) {
#pragma GCC unroll 16
      for (int p = 0; p < group_tokens<isa>; ++p)
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

  // scale: from S~ to S, in the middle of a run.
  void advance_as_rows(const Head& head, const Run& run, StridedRows<float> y,
                       const float* scale = nullptr) {
    to_rows();
    for (int64_t i = rows_.begin; scale && i < rows_.end; ++i)
      for (int c = 0; c < N; ++c) state_.at(i)[c] *= scale[c];
    advance_run<isa, N, ReadOut::yes>(head, run, rows_, state_, y);
  }

  StridedRows<float> state_;
  Rows rows_;
  bool in_slabs_;
  float* slabs_;
};

}  // namespace
}  // namespace deltasane::kernel::cpu
