// For tests: the definition of norm_shift over whole problems, in float (plain) or double (the
// truth).
#pragma once

#include <algorithm>
#include <utility>

#include "kernel/norm/cuda_definition.h"
#include "kernel/token_shift/reference.h"

namespace deltasane::kernel::cuda::rows_definition {

inline constexpr float shift_eps = 1e-5f;
inline constexpr int64_t shift_chunk = 6;

// norm_shift: the mixes, and one more with mu_tau for the rows that end a chunk.
template <class T>
struct Shift {
  RowBlock rows;
  int mixes;
  int64_t position, chunks;
  Numbers<float> x, weight, bias, before;
  std::vector<Numbers<float>> mu;  // mixes + 1
  std::vector<uint8_t> present;    // (rows); empty: all 1

  Shift(const RowBlock& of, int mixes_, int64_t position_)
      : rows(of),
        mixes(mixes_),
        position(position_),
        chunks((position_ % shift_chunk + of.time) / shift_chunk),
        x(random_numbers<float>(of.rows() * of.channels, 2, 1, 0.5)),
        weight(random_numbers<float>(of.channels, 1, 2)),
        bias(random_numbers<float>(of.channels, 1, 3)),
        before(random_numbers<float>(of.sequences * of.channels, 1, 4)) {
    for (int m = 0; m <= mixes; ++m) mu.push_back(random_numbers<float>(of.channels, 1, uint64_t(10 + m)));
  }

  // The place of a row in mix m; -1: it has none.
  int64_t place(int m, int64_t sequence, int64_t t) const {
    if (m < mixes) return sequence * rows.time + t;
    const int64_t count = position % shift_chunk + t + 1;
    return count % shift_chunk ? -1 : sequence * chunks + count / shift_chunk - 1;
  }
  int64_t rows_of(int m) const { return m < mixes ? rows.rows() : rows.sequences * chunks; }

  // Padding in front of a sequence's rows, inside them and behind them.
  void pad() {
    present.assign(size_t(rows.rows()), 1);
    for (int64_t row = 0; row < rows.rows(); ++row) {
      const int64_t t = row % rows.time, front = row / rows.time * 3 + 1;
      if (t < front || t % 11 == 8 || t + 1 == rows.time) present[size_t(row)] = 0;
    }
  }
  void leave_out_padding(Numbers<T>& all) const {
    for (size_t row = 0; row < present.size(); ++row)
      if (!present[row]) std::ranges::fill(row_of(all, int64_t(row), rows.channels), T(0));
  }

  struct Result {
    std::vector<Numbers<T>> out;
    Numbers<T> away, last;  // away: of the rows of the last mix
  };
  Result forward() const {
    const int64_t C = rows.channels;
    Numbers<T> u = normalized_rows<T>(x, weight, bias);
    leave_out_padding(u);
    const Numbers<T> first = as<T>(before);
    Result result;
    // Row t of a sequence, to its place in a mix.
    const auto place_row = [&](int m, int64_t s, int64_t t, std::span<const T> row,
                               Numbers<T>& out) {
      if (const int64_t to = place(m, s, t); to >= 0)
        std::ranges::copy(row, row_of(out, to, C).begin());
    };
    result.away.resize(size_t(rows_of(mixes) * C));
    for (int m = 0; m <= mixes; ++m) {
      Numbers<T> out(size_t(rows_of(m) * C)), mixed(size_t(rows.time * C)), away(size_t(C), T(0));
      const Numbers<T> by = as<T>(mu[size_t(m)]);
      for (int64_t s = 0; s < rows.sequences; ++s) {
        const auto own = row_of(std::as_const(u), s, rows.time * C), p = row_of(first, s, C);
        reference::token_shift<T>(own, p, by, mixed);
        for (int64_t t = 0; t < rows.time; ++t) {
          place_row(m, s, t, row_of(std::as_const(mixed), t, C), out);
          for (size_t c = 0; c < size_t(C); ++c) {
            const size_t at = size_t(t * C) + c;
            away[c] = (t == 0 ? p[c] : own[at - size_t(C)]) - own[at];
          }
          if (m == mixes) place_row(m, s, t, away, result.away);
        }
      }
      result.out.push_back(out);
    }
    for (int64_t s = 0; s < rows.sequences; ++s) {
      const auto row = row_of(std::as_const(u), (s + 1) * rows.time - 1, C);
      result.last.insert(result.last.end(), row.begin(), row.end());
    }
    return result;
  }

  struct Gradient {
    Numbers<T> dx, dweight, dbias;  // begin as `start`
    std::vector<Numbers<T>> dmu;
  };
  // Where `before` is zero; dout: mixes + 1. All that is added to begins as `start`.
  Gradient backward(const std::vector<Numbers<float>>& dout, T start) const {
    const int64_t C = rows.channels;
    Numbers<T> u = normalized_rows<T>(x, weight, bias);
    leave_out_padding(u);
    const Numbers<T> from = as<T>(x), w = as<T>(weight);
    Numbers<T> du(u.size());
    Gradient g{Numbers<T>(u.size(), start),
               Numbers<T>(size_t(C), start),
               Numbers<T>(size_t(C), start),
               {}};
    for (int m = 0; m <= mixes; ++m) {
      Numbers<T> dmu(size_t(C), start);
      const Numbers<T> by = as<T>(mu[size_t(m)]), d = as<T>(dout[size_t(m)]);
      for (int64_t s = 0; s < rows.sequences; ++s) {
        Numbers<T> dmixed(size_t(rows.time * C), T(0));
        for (int64_t t = 0; t < rows.time; ++t)
          if (const int64_t at = place(m, s, t); at >= 0)
            std::ranges::copy(row_of(d, at, C), row_of(dmixed, t, C).begin());
        const int64_t all = rows.time * C;
        reference::token_shift_backward<T>(row_of(std::as_const(u), s, all), by, dmixed, row_of(du, s, all), dmu);
      }
      g.dmu.push_back(dmu);
    }
    leave_out_padding(du);
    for (int64_t row = 0; row < rows.rows(); ++row)
      reference::layer_norm_backward<T>({row_of(from, row, C), w, T(shift_eps),
                                         row_of(std::as_const(du), row, C), row_of(g.dx, row, C),
                                         g.dweight, g.dbias});
    return g;
  }
};

}  // namespace deltasane::kernel::cuda::rows_definition
