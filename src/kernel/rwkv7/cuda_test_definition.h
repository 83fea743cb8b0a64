// The definition of the row operations over whole problems, in float (plain) or double (the truth),
// for the tests of the GPU's kernels. Inputs are what a tensor of type Real holds.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernel/gpu_test_case.h"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/gradient_reference.h"
#include "kernel/rwkv7/reference.h"

namespace deltasane::kernel::cuda::rows_definition {

inline constexpr float shift_eps = 1e-5f, group_eps = 64e-5f;
inline constexpr int64_t shift_chunk = 6;

// One row, odd numbers of them, several sequences, more rows than blocks, a row of many threads,
// and more of such rows than blocks.
inline std::vector<RowBlock> shapes() {
  return {{1, 1, 64},    {1, 7, 128},   {3, 11, 192}, {1, 33, 768},
          {2, 17, 1024}, {2, 1100, 64}, {1, 3, 4096}, {1, 600, 1088}};
}

template <class T>
std::span<T> row_of(Numbers<T>& x, int64_t row, int64_t channels) {
  if (x.empty()) return {};
  return std::span(x).subspan(size_t(row * channels), size_t(channels));
}
template <class T>
std::span<const T> row_of(const Numbers<T>& x, int64_t row, int64_t channels) {
  if (x.empty()) return {};
  return std::span(x).subspan(size_t(row * channels), size_t(channels));
}

template <class T>
Numbers<T> normalized_rows(const Numbers<float>& x, const Numbers<float>& weight,
                           const Numbers<float>& bias) {
  const Numbers<T> from = as<T>(x), w = as<T>(weight), b = as<T>(bias);
  Numbers<T> y(x.size());
  const int64_t C = int64_t(w.size());
  for (int64_t row = 0; row < int64_t(x.size()) / C; ++row)
    reference::layer_norm<T>(row_of(from, row, C), w, b, T(1e-5f), row_of(y, row, C));
  return y;
}

template <class T>
Numbers<T> embedded(const Numbers<int32_t>& tokens, const Numbers<float>& table,
                    const Numbers<float>& weight, const Numbers<float>& bias) {
  Numbers<float> x;
  for (const int32_t token : tokens) {
    const auto row = row_of(table, token, int64_t(weight.size()));
    x.insert(x.end(), row.begin(), row.end());
  }
  return normalized_rows<T>(x, weight, bias);
}

template <class T>
Numbers<T> activated(GpuActivation which, const Numbers<float>& x) {
  Numbers<T> y = as<T>(x);
  for (T& value : y)
    value = which == GpuActivation::tanh      ? std::tanh(value)
            : which == GpuActivation::sigmoid ? 1 / (1 + std::exp(-value))
                                              : std::max(value, T(0)) * std::max(value, T(0));
  return y;
}

// norm_shift: the mixes, and one more with mu_tau for the rows that end a chunk.
template <class T>
struct Shift {
  RowBlock rows;
  int mixes;
  int64_t position, chunks;
  Numbers<float> x, weight, bias, before;
  std::vector<Numbers<float>> mu;  // mixes + 1

  Shift(const RowBlock& of, int mixes_, int64_t position_)
      : rows(of),
        mixes(mixes_),
        position(position_),
        chunks((position_ % shift_chunk + of.time) / shift_chunk),
        x(drawn<float>(of.rows() * of.channels, 2, 1, 0.5)),
        weight(drawn<float>(of.channels, 1, 2)),
        bias(drawn<float>(of.channels, 1, 3)),
        before(drawn<float>(of.sequences * of.channels, 1, 4)) {
    for (int m = 0; m <= mixes; ++m) mu.push_back(drawn<float>(of.channels, 1, uint64_t(10 + m)));
  }

  // The place of a row in mix m; -1: it has none.
  int64_t place(int m, int64_t sequence, int64_t t) const {
    if (m < mixes) return sequence * rows.time + t;
    const int64_t count = position % shift_chunk + t + 1;
    return count % shift_chunk ? -1 : sequence * chunks + count / shift_chunk - 1;
  }
  int64_t rows_of(int m) const { return m < mixes ? rows.rows() : rows.sequences * chunks; }

  struct Result {
    std::vector<Numbers<T>> out;
    Numbers<T> away, last;  // away: of the rows of the last mix
  };
  Result forward() const {
    const int64_t C = rows.channels;
    const Numbers<T> u = normalized_rows<T>(x, weight, bias), first = as<T>(before);
    Result result;
    result.away.resize(size_t(rows_of(mixes) * C));
    for (int m = 0; m <= mixes; ++m) {
      Numbers<T> out(size_t(rows_of(m) * C));
      for (int64_t s = 0; s < rows.sequences; ++s)
        for (int64_t t = 0; t < rows.time; ++t) {
          const int64_t to = place(m, s, t), row = s * rows.time + t;
          for (int64_t c = 0; to >= 0 && c < C; ++c) {
            const T now = u[size_t(row * C + c)];
            const T p = t == 0 ? first[size_t(s * C + c)] : u[size_t((row - 1) * C + c)];
            out[size_t(to * C + c)] = now + (p - now) * T(mu[size_t(m)][size_t(c)]);
            if (m == mixes) result.away[size_t(to * C + c)] = p - now;
          }
        }
      result.out.push_back(out);
    }
    for (int64_t s = 0; s < rows.sequences; ++s) {
      const auto row = row_of(u, (s + 1) * rows.time - 1, C);
      result.last.insert(result.last.end(), row.begin(), row.end());
    }
    return result;
  }

  struct Gradient {
    Numbers<T> dx, dweight, dbias;  // begin as `start`
    std::vector<Numbers<T>> dmu;
  };
  // From nothing before the first row; dout: mixes + 1. All that is added to begins as `start`.
  Gradient backward(const std::vector<Numbers<float>>& dout, T start) const {
    const int64_t C = rows.channels;
    const Numbers<T> u = normalized_rows<T>(x, weight, bias), from = as<T>(x), w = as<T>(weight);
    Numbers<T> du(u.size());
    Gradient g{Numbers<T>(u.size(), start),
               Numbers<T>(size_t(C), start),
               Numbers<T>(size_t(C), start),
               {}};
    for (int m = 0; m <= mixes; ++m) {
      Numbers<T> dmu(size_t(C), start);
      for (int64_t s = 0; s < rows.sequences; ++s)
        for (int64_t t = 0; t < rows.time; ++t) {
          const int64_t at = place(m, s, t), row = s * rows.time + t;
          for (int64_t c = 0; at >= 0 && c < C; ++c) {
            const T d = T(dout[size_t(m)][size_t(at * C + c)]), now = u[size_t(row * C + c)];
            const T p = t == 0 ? T(0) : u[size_t((row - 1) * C + c)];
            const T by = T(mu[size_t(m)][size_t(c)]);
            du[size_t(row * C + c)] += d * (1 - by);
            if (t > 0) du[size_t((row - 1) * C + c)] += d * by;
            dmu[size_t(c)] += d * (p - now);
          }
        }
      g.dmu.push_back(dmu);
    }
    for (int64_t row = 0; row < rows.rows(); ++row)
      reference::layer_norm_backward<T>({row_of(from, row, C), w, T(shift_eps),
                                         row_of(std::as_const(du), row, C), row_of(g.dx, row, C),
                                         g.dweight, g.dbias});
    return g;
  }
};

// The operands of the two large operations. Gradients that are added to begin as `start`.
template <class T, class Real>
struct TimeMix {
  RowBlock rows;
  bool first;
  Numbers<T> w, a, b, k, v, gate, v_first, r, g, y;    // (rows, C)
  Numbers<T> w0, a0, v0, k_k, k_a, weight, bias, r_k;  // (C)
  Numbers<T> dw, da, db, dk, dv, dgate, dv_first, dr, dg, dy, dv_bonus;
  Numbers<T> dbonus;  // (rows, H)
  Numbers<T> dw0, da0, dv0, dk_k, dk_a, dweight, dbias, dr_k;
  static constexpr float start = 0.25f;

  TimeMix(const RowBlock& of, bool first_) : rows(of), first(first_) {
    const int64_t c = of.channels, n = of.rows() * c;
    uint64_t stream = 1;
    for (auto* x : {&w, &dw}) *x = as<T>(drawn<float>(n, 1, stream++));
    for (auto* x : {&a, &b, &k, &v, &gate, &v_first, &r, &g, &y, &da, &db, &dk, &dv, &dy})
      *x = as<T>(drawn<Real>(n, 1, stream++));
    for (auto* x : {&w0, &a0, &v0, &k_k, &k_a, &weight, &bias, &r_k})
      *x = as<T>(drawn<float>(c, 1, stream++));
    for (auto* x : {&dr, &dv_bonus}) *x = as<T>(drawn<Real>(n, 1, stream++));
    dbonus = as<T>(drawn<float>(n / 64, 1, stream++));
    for (auto* x : {&dgate, &dg}) x->assign(size_t(n), T(0));
    dv_first.assign(size_t(n), T(start));
    for (auto* x : {&dw0, &da0, &dv0, &dk_k, &dk_a, &dweight, &dbias, &dr_k})
      x->assign(size_t(c), T(start));
    if (first)
      for (auto* x : {&gate, &v_first, &dgate, &dv_first}) x->clear();
  }
  std::span<T> row(Numbers<T>& x, int64_t i) const { return row_of(x, i, rows.channels); }

  void inputs() {
    for (int64_t i = 0; i < rows.rows(); ++i)
      reference::time_mix_inputs<T>({64, row(w, i), row(a, i), row(b, i), row(k, i), row(v, i),
                                     row(gate, i), row(v_first, i), w0, a0, v0, k_k, k_a});
  }
  // To what the recurrence gives to the gradients of r, k and v, what the bonus does.
  void add_bonus() {
    TimeMix after = *this;
    after.inputs();
    for (size_t i = 0; i < dr.size(); ++i) {
      const T by = dbonus[i / 64] * r_k[i % r_k.size()];
      dr[i] += by * after.k[i], dk[i] += by * r[i], dv[i] += dv_bonus[i];
    }
  }
  void inputs_backward() {
    add_bonus();
    for (int64_t i = 0; i < rows.rows(); ++i) {
      reference::TimeMixInputsGradient<T> op;
      op.head_size = 64;
      op.w = row(w, i), op.a = row(a, i), op.k = row(k, i), op.v = row(v, i);
      op.gate = row(gate, i), op.v_first = row(v_first, i);
      op.w0 = w0, op.a0 = a0, op.v0 = v0, op.k_k = k_k, op.k_a = k_a;
      op.dw = row(dw, i), op.da = row(da, i), op.dk = row(dk, i), op.dv = row(dv, i);
      op.db = row(db, i), op.dgate = row(dgate, i), op.dv_first = row(dv_first, i);
      op.dw0 = dw0, op.da0 = da0, op.dv0 = dv0, op.dk_k = dk_k, op.dk_a = dk_a;
      reference::time_mix_inputs_backward<T>(op);
    }
  }
  void output() {
    for (int64_t i = 0; i < rows.rows(); ++i)
      reference::time_mix_output<T>({64, row(y, i), row(r, i), row(k, i), row(v, i), row(g, i),
                                     weight, bias, r_k, T(group_eps)});
  }
  // dr and dk are dbonus with k r_k and r r_k; dv is dv_bonus.
  void output_backward() {
    std::ranges::fill(dbonus, T(0));
    for (size_t i = 0; i < v.size(); ++i) dbonus[i / 64] += dy[i] * g[i] * v[i];
    for (int64_t i = 0; i < rows.rows(); ++i)
      reference::time_mix_output_backward<T>({64, row(y, i), row(r, i), row(k, i), row(v, i),
                                              row(g, i), weight, bias, r_k, T(group_eps),
                                              row(dy, i), row(dr, i), row(dk, i), row(dv, i),
                                              row(dg, i), dweight, dbias, dr_k});
  }
};

// The operands of a plain TimeMix in the GPU's memory.
template <class Real>
struct OnGpu {
  GpuTensor<float> w;
  GpuTensor<Real> a, b, k, v, gate, v_first, r, g, y;
  GpuTensor<float> w0, a0, v0, k_k, k_a, weight, bias, r_k;

  template <class ToReal, class ToFloat>
  OnGpu(const TimeMix<float, Real>& of, ToReal real, ToFloat floats)
      : w(floats(of.w)),
        a(real(of.a)),
        b(real(of.b)),
        k(real(of.k)),
        v(real(of.v)),
        gate(real(of.gate)),
        v_first(real(of.v_first)),
        r(real(of.r)),
        g(real(of.g)),
        y(real(of.y)),
        w0(floats(of.w0)),
        a0(floats(of.a0)),
        v0(floats(of.v0)),
        k_k(floats(of.k_k)),
        k_a(floats(of.k_a)),
        weight(floats(of.weight)),
        bias(floats(of.bias)),
        r_k(floats(of.r_k)) {}
};

}  // namespace deltasane::kernel::cuda::rows_definition
