#include "kernel/delta_rule/reference.h"

#include <cmath>
#include <vector>

#include "kernel/delta_rule/validate.h"

namespace deltasane::kernel::reference {
namespace {

template <class Real>
struct Matrix {
  int64_t rows, columns;
  std::vector<Real> element;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), element(size_t(r * c), Real(0)) {}
  Real& operator()(int64_t i, int64_t j) { return element[size_t(i * columns + j)]; }
  Real operator()(int64_t i, int64_t j) const { return element[size_t(i * columns + j)]; }
};

// One head of one sequence.
template <class Real>
struct Head {
  const DeltaRule<Real>& op;
  int64_t batch, head, key_head, time, values, keys;

  Head(const DeltaRule<Real>& operation, int64_t b, int64_t h)
      : op(operation),
        batch(b),
        head(h),
        key_head(h / (op.v.shape[2] / op.k.shape[2])),
        time(op.k.shape[1]),
        values(op.v.shape[3]),
        keys(op.k.shape[3]) {}

  bool present(int64_t t) const { return !op.present || op.present(batch, t) != 0; }

  Real decay(int64_t t, int64_t j) const {
    switch (op.rule) {
      case Rule::deltanet:
        return Real(1);
      case Rule::gated_deltanet:
        return op.w(batch, t, head);
      default:
        return op.w(batch, t, head, j);
    }
  }

  int64_t position(int64_t t) const { return (op.position ? op.position(batch) : 0) + t; }

  // The number, in this call, of the chunk that is neutralized after token t; -1 for none.
  int64_t neutralized_chunk(int64_t t) const {
    if (!op.tau || (position(t) + 1) % op.chunk != 0) return -1;
    const int64_t number = position(t) / op.chunk - position(0) / op.chunk;
    if (op.neutralize && op.neutralize(batch, number) == 0) return -1;
    for (int64_t s = t; s >= 0 && position(s) / op.chunk == position(t) / op.chunk; --s)
      if (!present(s)) return -1;
    return number;
  }

  Real tau(int64_t number) const { return op.tau(batch, number, head); }

  Matrix<Real> initial() const {
    Matrix<Real> S(values, keys);
    for (int64_t i = 0; i < values && op.initial; ++i)
      for (int64_t j = 0; j < keys; ++j) S(i, j) = op.initial(batch, head, i, j);
    return S;
  }

  // sum over j of S_ij x_j, for row i
  template <class Vector>
  Real row_times(const Matrix<Real>& S, int64_t i, Vector x) const {
    Real sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += S(i, j) * x(j);
    return sum;
  }

  void step(int64_t t, Matrix<Real>& S) const {
    const auto k = [&](int64_t j) { return op.k(batch, t, key_head, j); };
    if (op.rule == Rule::generalized) {
      for (int64_t i = 0; i < values; ++i) {
        const Real sa = row_times(S, i, [&](int64_t j) { return op.a(batch, t, head, j); });
        for (int64_t j = 0; j < keys; ++j)
          S(i, j) =
              S(i, j) * decay(t, j) + sa * op.b(batch, t, head, j) + op.v(batch, t, head, i) * k(j);
      }
      return;
    }
    const Real beta = op.beta(batch, t, head);
    for (int64_t i = 0; i < values; ++i) {
      for (int64_t j = 0; j < keys; ++j) S(i, j) *= decay(t, j);
      const Real recalled = row_times(S, i, k);
      for (int64_t j = 0; j < keys; ++j)
        S(i, j) += beta * (op.v(batch, t, head, i) - recalled) * k(j);
    }
  }

  void read_out(int64_t t, const Matrix<Real>& S) const {
    for (int64_t i = 0; i < values; ++i)
      op.y(batch, t, head, i) =
          row_times(S, i, [&](int64_t j) { return op.r(batch, t, key_head, j); });
  }

  void forward() const {
    Matrix<Real> S = initial();
    for (int64_t t = 0; t < time; ++t) {
      if (!present(t)) {
        for (int64_t i = 0; i < values; ++i) op.y(batch, t, head, i) = 0;
        continue;
      }
      step(t, S);
      read_out(t, S);
      if (const int64_t number = neutralized_chunk(t); number >= 0)
        for (Real& s : S.element) s = tau(number) * std::tanh(s / tau(number));
    }
    for (int64_t i = 0; i < values && op.final_state; ++i)
      for (int64_t j = 0; j < keys; ++j) op.final_state(batch, head, i, j) = S(i, j);
  }
};

template <class Real>
void store(const View<Real>& to, int64_t b, int64_t t, int64_t h, int64_t c, Real value) {
  if (to) to(b, t, h, c) = value;
}
template <class Real>
void store(const View<Real>& to, int64_t b, int64_t t, int64_t h, Real value) {
  if (to) to(b, t, h) = value;
}
// Of key heads, which several heads may share.
template <class Real>
void add(const View<Real>& to, int64_t b, int64_t t, int64_t key_head, int64_t c, Real value) {
  if (to) to(b, t, key_head, c) += value;
}
template <class Real>
void clear(const View<Real>& all) {
  for (int64_t b = 0; all && b < all.shape[0]; ++b)
    for (int64_t t = 0; t < all.shape[1]; ++t)
      for (int64_t h = 0; h < all.shape[2]; ++h)
        for (int64_t c = 0; c < all.shape[3]; ++c) all(b, t, h, c) = 0;
}

template <class Real>
struct HeadBackward : Head<Real> {
  using Head<Real>::op, Head<Real>::batch, Head<Real>::head, Head<Real>::key_head,
      Head<Real>::time, Head<Real>::values, Head<Real>::keys, Head<Real>::decay, Head<Real>::tau;
  const DeltaRuleGradient<Real>& gradient;

  HeadBackward(const DeltaRule<Real>& operation, const DeltaRuleGradient<Real>& g, int64_t b,
               int64_t h)
      : Head<Real>(operation, b, h), gradient(g) {}

  // Through S~ = tau tanh(S / tau): from the gradient of S~ to that of S, in place; returns dtau.
  Real neutralize(int64_t number, const Matrix<Real>& S, Matrix<Real>& dS) const {
    const Real tau_h = tau(number);
    Real dtau = 0;
    for (int64_t i = 0; i < values; ++i)
      for (int64_t j = 0; j < keys; ++j) {
        const Real u = S(i, j) / tau_h;
        const Real th = std::tanh(u);
        const Real sech2 = 1 - th * th;
        dtau += dS(i, j) * (th - u * sech2);
        dS(i, j) *= sech2;
      }
    return dtau;
  }

  // Through S = S0 diag(w) + (S0 a) b' + v k'.
  void step_generalized(int64_t t, const Matrix<Real>& S0, Matrix<Real>& dS) const {
    std::vector<Real> dk(size_t(keys), Real(0)), db = dk, da = dk, dw = dk;
    for (int64_t i = 0; i < values; ++i) {
      Real sa = 0, dsa = 0, dv = 0;
      for (int64_t j = 0; j < keys; ++j) {
        sa += S0(i, j) * op.a(batch, t, head, j);
        dsa += dS(i, j) * op.b(batch, t, head, j);
        dv += dS(i, j) * op.k(batch, t, key_head, j);
      }
      store(gradient.dv, batch, t, head, i, dv);
      for (int64_t j = 0; j < keys; ++j) {
        dk[size_t(j)] += dS(i, j) * op.v(batch, t, head, i);
        db[size_t(j)] += dS(i, j) * sa;
        da[size_t(j)] += S0(i, j) * dsa;
        dw[size_t(j)] += dS(i, j) * S0(i, j);
        dS(i, j) = dS(i, j) * decay(t, j) + dsa * op.a(batch, t, head, j);
      }
    }
    for (int64_t j = 0; j < keys; ++j) {
      add(gradient.dk, batch, t, key_head, j, dk[size_t(j)]);
      store(gradient.db, batch, t, head, j, db[size_t(j)]);
      store(gradient.da, batch, t, head, j, da[size_t(j)]);
      store(gradient.dw, batch, t, head, j, dw[size_t(j)]);
    }
  }

  // Through D = S0 diag(w), S = D + beta (v - D k) k'.
  void step_erase_after_decay(int64_t t, const Matrix<Real>& S0, Matrix<Real>& dS) const {
    const Real beta = op.beta(batch, t, head);
    std::vector<Real> dk(size_t(keys), Real(0)), dw = dk;
    Real dbeta = 0;
    for (int64_t i = 0; i < values; ++i) {
      Real recalled = 0, dSk = 0;
      for (int64_t j = 0; j < keys; ++j) {
        recalled += S0(i, j) * decay(t, j) * op.k(batch, t, key_head, j);
        dSk += dS(i, j) * op.k(batch, t, key_head, j);
      }
      const Real missing = op.v(batch, t, head, i) - recalled;
      dbeta += missing * dSk;
      store(gradient.dv, batch, t, head, i, beta * dSk);
      for (int64_t j = 0; j < keys; ++j) {
        dk[size_t(j)] += beta * (missing * dS(i, j) - S0(i, j) * decay(t, j) * dSk);
        const Real dD = dS(i, j) - beta * dSk * op.k(batch, t, key_head, j);
        dw[size_t(j)] += dD * S0(i, j);
        dS(i, j) = dD * decay(t, j);
      }
    }
    store(gradient.dbeta, batch, t, head, dbeta);
    Real dw_head = 0;
    for (int64_t j = 0; j < keys; ++j) {
      add(gradient.dk, batch, t, key_head, j, dk[size_t(j)]);
      if (op.rule == Rule::kda) store(gradient.dw, batch, t, head, j, dw[size_t(j)]);
      dw_head += dw[size_t(j)];
    }
    if (op.rule == Rule::gated_deltanet) store(gradient.dw, batch, t, head, dw_head);
  }

  void read_out(int64_t t, const Matrix<Real>& S, Matrix<Real>& dS) const {
    for (int64_t j = 0; j < keys; ++j) {
      Real dr = 0;
      for (int64_t i = 0; i < values; ++i) {
        dr += S(i, j) * gradient.dy(batch, t, head, i);
        dS(i, j) += gradient.dy(batch, t, head, i) * op.r(batch, t, key_head, j);
      }
      add(gradient.dr, batch, t, key_head, j, dr);
    }
  }

  void zero_for_padding(int64_t t) const {
    for (int64_t j = 0; j < keys; ++j) {
      for (const View<Real>& g : {gradient.da, gradient.db})
        store(g, batch, t, head, j, Real(0));
      if (gradient.dw.shape.rank() == 4) store(gradient.dw, batch, t, head, j, Real(0));
    }
    for (int64_t i = 0; i < values; ++i) store(gradient.dv, batch, t, head, i, Real(0));
    store(gradient.dbeta, batch, t, head, Real(0));
    if (gradient.dw.shape.rank() == 3) store(gradient.dw, batch, t, head, Real(0));
  }

  void backward() const {
    // before[t] enters token t, after[t] leaves it (not yet neutralized)
    std::vector<Matrix<Real>> before, after;
    Matrix<Real> S = this->initial();
    for (int64_t t = 0; t < time; ++t) {
      before.push_back(S);
      if (this->present(t)) this->step(t, S);
      after.push_back(S);
      if (const int64_t number = this->neutralized_chunk(t); number >= 0)
        for (Real& s : S.element) s = tau(number) * std::tanh(s / tau(number));
    }

    for (int64_t c = 0; gradient.dtau && c < gradient.dtau.shape[1]; ++c)
      gradient.dtau(batch, c, head) = 0;
    Matrix<Real> dS(values, keys);
    for (int64_t i = 0; i < values && gradient.dfinal; ++i)
      for (int64_t j = 0; j < keys; ++j) dS(i, j) = gradient.dfinal(batch, head, i, j);
    for (int64_t t = time - 1; t >= 0; --t) {
      if (!this->present(t)) {
        zero_for_padding(t);
        continue;
      }
      if (const int64_t number = this->neutralized_chunk(t); number >= 0) {
        const Real dtau = neutralize(number, after[size_t(t)], dS);
        if (gradient.dtau) gradient.dtau(batch, number, head) = dtau;
      }
      read_out(t, after[size_t(t)], dS);
      if (op.rule == Rule::generalized)
        step_generalized(t, before[size_t(t)], dS);
      else
        step_erase_after_decay(t, before[size_t(t)], dS);
    }
    for (int64_t i = 0; i < values && gradient.dinitial; ++i)
      for (int64_t j = 0; j < keys; ++j) gradient.dinitial(batch, head, i, j) = dS(i, j);
  }
};

}  // namespace

template <class Real>
void delta_rule(const DeltaRule<Real>& op) {
  validate(op);
  for (int64_t b = 0; b < op.k.shape[0]; ++b)
    for (int64_t h = 0; h < op.v.shape[2]; ++h) Head<Real>(op, b, h).forward();
}

template <class Real>
void delta_rule_backward(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient) {
  validate(op, gradient);
  clear(gradient.dr), clear(gradient.dk);
  for (int64_t b = 0; b < op.k.shape[0]; ++b)
    for (int64_t h = 0; h < op.v.shape[2]; ++h) HeadBackward<Real>(op, gradient, b, h).backward();
}

template void delta_rule(const DeltaRule<float>&);
template void delta_rule(const DeltaRule<double>&);
template void delta_rule_backward(const DeltaRule<float>&, const DeltaRuleGradient<float>&);
template void delta_rule_backward(const DeltaRule<double>&, const DeltaRuleGradient<double>&);

}  // namespace deltasane::kernel::reference
