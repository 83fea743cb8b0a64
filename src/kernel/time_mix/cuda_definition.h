// For tests: the operands of time_mix_inputs and time_mix_output, their definition over whole
// problems, in float (plain) or double (the truth), and a copy on a GPU. Inputs are what a tensor
// of type Real holds.
#pragma once

#include <algorithm>
#include <span>

#include "kernel/rows/cuda_test_rows.h"
#include "kernel/time_mix/reference.h"

namespace deltasane::kernel::cuda::rows_definition {

inline constexpr float group_eps = 64e-5f;

// The first layer or another, and how keys are normalized: with an addend that shows.
struct InputCase {
  bool first;
  KeyNorm key_norm;
};
inline constexpr InputCase input_cases[] = {{false, {}}, {true, {}}, {false, {2.0f, 0}}};

// Gradients that are added to begin as `start`.
template <class T, class Real>
struct TimeMix {
  RowBlock rows;
  bool first;
  KeyNorm key_norm{};
  Numbers<T> w, a, b, k, v, gate, v_first, r, g, y;    // (rows, C)
  Numbers<T> w0, a0, v0, k_k, k_a, weight, bias, r_k;  // (C)
  Numbers<T> dw, da, db, dk, dv, dgate, dv_first, dr, dg, dy, dv_bonus;
  Numbers<T> dbonus;  // (rows, H)
  Numbers<T> dw0, da0, dv0, dk_k, dk_a, dweight, dbias, dr_k;
  static constexpr float start = 0.25f;

  TimeMix(const RowBlock& of, bool first_) : rows(of), first(first_) {
    const int64_t c = of.channels, n = of.rows() * c;
    uint64_t stream = 1;
    for (auto* x : {&w, &dw}) *x = as<T>(random_numbers<float>(n, 1, stream++));
    for (auto* x : {&a, &b, &k, &v, &gate, &v_first, &r, &g, &y, &da, &db, &dk, &dv, &dy})
      *x = as<T>(random_numbers<Real>(n, 1, stream++));
    for (auto* x : {&w0, &a0, &v0, &k_k, &k_a, &weight, &bias, &r_k})
      *x = as<T>(random_numbers<float>(c, 1, stream++));
    for (auto* x : {&dr, &dv_bonus}) *x = as<T>(random_numbers<Real>(n, 1, stream++));
    dbonus = as<T>(random_numbers<float>(n / 64, 1, stream++));
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
                                     row(gate, i), row(v_first, i), w0, a0, v0, k_k, k_a, key_norm});
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
      op.key_norm = key_norm;
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
