// The layers of the definition (reference.h), each with its gradient: plain loops over one whole
// sequence, every activation kept. For reference.cpp only.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernel/delta_rule/reference.h"
#include "kernel/norm/reference.h"
#include "kernel/sane/reference.h"
#include "kernel/time_mix/reference.h"
#include "model/train/parameters.h"
#include "model/train/rounding.h"
#include "model/rwkv7/checkpoint/tensor_table.h"

namespace deltasane::reference::layers {

template <class Real>
using Rows = std::vector<Real>;  // (time, n), one sequence

template <class Real>
std::span<Real> row_of(Rows<Real>& x, size_t t, size_t n) {
  if (x.empty()) return {};
  return std::span(x).subspan(t * n, n);
}

template <class Real>
struct Model {
  const Rwkv7Shape& shape;
  const ParameterLayout& layout;
  std::optional<SaneSettings> sane;  // also without SANE's tensors: w_tau = 0 then
  std::span<const Real> parameters;
  std::span<Real> gradient;
  Precision precision = Precision::fp32;
  std::span<const uint8_t> present{};  // of the sequence that is computed; empty: all

  // Padding is a row of zeros to what follows; so is its gradient.
  void leave_out_padding(Rows<Real>& rows) const {
    for (size_t t = 0; t < present.size(); ++t)
      if (!present[t]) std::ranges::fill(row_of(rows, t, rows.size() / present.size()), Real(0));
  }
  std::span<const Real> w(const std::string& name) const {
    const ParameterSlot& slot = layout.slot(name);
    return parameters.subspan(size_t(slot.offset), size_t(slot.elements()));
  }
  std::span<Real> dw(const std::string& name) const {
    const ParameterSlot& slot = layout.slot(name);
    return gradient.subspan(size_t(slot.offset), size_t(slot.elements()));
  }
};

template <class Real>
void add(const Rows<Real>& from, Rows<Real>& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

// What a matrix product takes (model/train/rounding.h).
template <class Real, class Numbers>
Rows<Real> taken(const Numbers& x, Precision precision) {
  Rows<Real> copy(x.begin(), x.end());
  if (precision == Precision::bf16)
    for (Real& one : copy) one = rounded_to_bf16(one);
  return copy;
}

// y = x W', W (out, in)
template <class Real>
struct Linear {
  const Model<Real>& m;
  std::string name;
  size_t out = size_t(m.layout.slot(name).shape[0]), in = size_t(m.layout.slot(name).shape[1]);

  Rows<Real> forward(const Rows<Real>& input) const {
    const auto w = taken<Real>(m.w(name), m.precision), x = taken<Real>(input, m.precision);
    const size_t rows = x.size() / in;
    Rows<Real> y(rows * out, Real(0));
    for (size_t t = 0; t < rows; ++t)
      for (size_t i = 0; i < out; ++i)
        for (size_t j = 0; j < in; ++j) y[t * out + i] += w[i * in + j] * x[t * in + j];
    return y;
  }
  Rows<Real> backward(const Rows<Real>& input, const Rows<Real>& doutput) const {
    const auto w = taken<Real>(m.w(name), m.precision), x = taken<Real>(input, m.precision),
               dy = taken<Real>(doutput, m.precision);
    const auto dw = m.dw(name);
    Rows<Real> dx(x.size(), Real(0));
    for (size_t t = 0; t < x.size() / in; ++t)
      for (size_t i = 0; i < out; ++i)
        for (size_t j = 0; j < in; ++j) {
          dx[t * in + j] += w[i * in + j] * dy[t * out + i];
          dw[i * in + j] += dy[t * out + i] * x[t * in + j];
        }
    return dx;
  }
};

// y = x F, F (in, out)
template <class Real>
struct Factor {
  const Model<Real>& m;
  std::string name;
  size_t in = size_t(m.layout.slot(name).shape[0]), out = size_t(m.layout.slot(name).shape[1]);
  Precision precision = m.precision;

  Rows<Real> forward(const Rows<Real>& input) const {
    const auto f = taken<Real>(m.w(name), precision), x = taken<Real>(input, precision);
    const size_t rows = x.size() / in;
    Rows<Real> y(rows * out, Real(0));
    for (size_t t = 0; t < rows; ++t)
      for (size_t i = 0; i < in; ++i)
        for (size_t j = 0; j < out; ++j) y[t * out + j] += x[t * in + i] * f[i * out + j];
    return y;
  }
  Rows<Real> backward(const Rows<Real>& input, const Rows<Real>& doutput) const {
    const auto f = taken<Real>(m.w(name), precision), x = taken<Real>(input, precision),
               dy = taken<Real>(doutput, precision);
    const auto df = m.dw(name);
    Rows<Real> dx(x.size(), Real(0));
    for (size_t t = 0; t < x.size() / in; ++t)
      for (size_t i = 0; i < in; ++i)
        for (size_t j = 0; j < out; ++j) {
          dx[t * in + i] += f[i * out + j] * dy[t * out + j];
          df[i * out + j] += x[t * in + i] * dy[t * out + j];
        }
    return dx;
  }
};

template <class Real>
struct Norm {
  const Model<Real>& m;
  std::string name;
  Rows<Real> forward(const Rows<Real>& x) const {
    const auto weight = m.w(name + ".weight"), bias = m.w(name + ".bias");
    const size_t n = weight.size();
    Rows<Real> y(x.size());
    for (size_t at = 0; at < x.size(); at += n)
      kernel::reference::layer_norm<Real>(std::span(x).subspan(at, n), weight, bias,
                                          Real(m.shape.norms.layer_eps),
                                          std::span(y).subspan(at, n));
    return y;
  }
  void backward(const Rows<Real>& x, const Rows<Real>& dy, Rows<Real>& dx) const {  // dx: added to
    const auto weight = m.w(name + ".weight");
    const size_t n = weight.size();
    for (size_t at = 0; at < x.size(); at += n)
      kernel::reference::layer_norm_backward<Real>(
          {std::span(x).subspan(at, n), weight, Real(m.shape.norms.layer_eps),
           std::span(dy).subspan(at, n), std::span(dx).subspan(at, n), m.dw(name + ".weight"),
           m.dw(name + ".bias")});
  }
};

// x = u + (p - u) mu, p the row before, 0 for the first
template <class Real>
struct Shift {
  const Model<Real>& m;
  std::string name;
  Rows<Real> forward(const Rows<Real>& u) const {
    const auto mu = m.w(name);
    const size_t n = mu.size();
    Rows<Real> x(u.size());
    for (size_t i = 0; i < u.size(); ++i)
      x[i] = u[i] + ((i < n ? Real(0) : u[i - n]) - u[i]) * mu[i % n];
    return x;
  }
  void backward(const Rows<Real>& u, const Rows<Real>& dx, Rows<Real>& du) const {  // du: added to
    const auto mu = m.w(name);
    const auto dmu = m.dw(name);
    const size_t n = mu.size();
    for (size_t i = 0; i < u.size(); ++i) {
      du[i] += dx[i] * (1 - mu[i % n]);
      if (i >= n) du[i - n] += dx[i] * mu[i % n];
      dmu[i % n] += dx[i] * ((i < n ? Real(0) : u[i - n]) - u[i]);
    }
  }
};

// tau = alpha softplus(x_tau w_tau) + 1 at the tokens that end a chunk
template <class Real>
struct Tau {
  const Model<Real>& m;
  std::string att;
  Rows<Real> x, z, tau;  // (chunks, C), (chunks, H), (chunks, H)

  Factor<Real> factor() const {
    Factor<Real> exact{m, att + "w_tau"};
    exact.precision = Precision::fp32;
    return exact;
  }

  void forward(const Rows<Real>& u) {
    const size_t n = size_t(m.shape.channels), chunk = size_t(m.sane->chunk);
    if (m.shape.sane) {
      const Rows<Real> mixed = Shift<Real>{m, att + "x_tau"}.forward(u);
      for (size_t t = chunk - 1; t < u.size() / n; t += chunk)
        x.insert(x.end(), mixed.begin() + int64_t(t * n), mixed.begin() + int64_t((t + 1) * n));
      z = factor().forward(x);
    } else {
      z.assign(u.size() / n / chunk * size_t(m.shape.heads), Real(0));
    }
    for (const Real value : z)
      tau.push_back(kernel::reference::tau_of(value, Real(m.sane->alpha)));
  }
  void backward(const Rows<Real>& u, const Rows<Real>& dtau, Rows<Real>& du) const {
    const size_t n = size_t(m.shape.channels), chunk = size_t(m.sane->chunk);
    Rows<Real> dz(dtau);
    for (size_t i = 0; i < dz.size(); ++i)
      dz[i] *= kernel::reference::tau_derivative(z[i], Real(m.sane->alpha));
    const Rows<Real> dx = factor().backward(x, dz);
    Rows<Real> dmixed(u.size(), Real(0));
    for (size_t c = 0; c < dx.size() / n; ++c)
      std::copy_n(dx.begin() + int64_t(c * n), n,
                  dmixed.begin() + int64_t(((c + 1) * chunk - 1) * n));
    Shift<Real>{m, att + "x_tau"}.backward(u, dmixed, du);
  }
};

template <class Real>
struct TimeMix {
  const Model<Real>& m;
  int64_t layer;
  std::string att = cat("blocks.", layer, ".att.");
  // raw_*: before time_mix_inputs; read: the recurrence's own output
  Rows<Real> u, mix_r, mix_w, mix_k, mix_v, mix_a, mix_g, low_w, low_a, low_v, low_g;
  Rows<Real> raw_w, raw_a, raw_k, raw_v, gate, r, w, k, v, a, b, g, read, y;
  Rows<Real> memory;  // (head, value, key) after the last token
  Tau<Real> tau{m, att, {}, {}, {}};

  TimeMix(const Model<Real>& model, int64_t index) : m(model), layer(index) {}

  Linear<Real> linear(const char* name) const { return {m, att + name}; }
  Factor<Real> factor(const char* name) const { return {m, att + name}; }
  Shift<Real> shift(const char* name) const { return {m, att + name}; }
  size_t channels() const { return size_t(m.shape.channels); }

  kernel::DeltaRule<Real> recurrence(int64_t time) {
    const Rwkv7Shape& s = m.shape;
    const Shape tokens{1, time, s.heads, s.head_size};
    kernel::DeltaRule<Real> op;
    op.r = {r.data(), tokens}, op.w = {w.data(), tokens}, op.k = {k.data(), tokens};
    op.v = {v.data(), tokens}, op.a = {a.data(), tokens}, op.b = {b.data(), tokens};
    op.y = {read.data(), tokens};
    if (!m.present.empty()) op.present = {m.present.data(), {1, time}};
    if (m.sane) op.chunk = m.sane->chunk;
    if (m.sane && !tau.tau.empty()) op.tau = {tau.tau.data(), {1, time / op.chunk, s.heads}};
    return op;
  }

  Rows<Real> forward(Rows<Real> input, Rows<Real>& v_first) {
    u = std::move(input);
    m.leave_out_padding(u);
    const size_t n = channels(), time = u.size() / n;
    mix_r = shift("x_r").forward(u), mix_w = shift("x_w").forward(u);
    mix_k = shift("x_k").forward(u), mix_v = shift("x_v").forward(u);
    mix_a = shift("x_a").forward(u), mix_g = shift("x_g").forward(u);
    r = linear("receptance.weight").forward(mix_r);
    raw_k = linear("key.weight").forward(mix_k);
    raw_v = linear("value.weight").forward(mix_v);
    low_w = factor("w1").forward(mix_w);
    for (Real& x : low_w) x = std::tanh(x);
    raw_w = factor("w2").forward(low_w);
    low_a = factor("a1").forward(mix_a);
    raw_a = factor("a2").forward(low_a);
    low_g = factor("g1").forward(mix_g);
    for (Real& x : low_g) x = 1 / (1 + std::exp(-x));
    g = factor("g2").forward(low_g);
    if (layer == 0) {
      v_first = raw_v;
    } else {
      low_v = factor("v1").forward(mix_v);
      gate = factor("v2").forward(low_v);
    }
    w = raw_w, a = raw_a, k = raw_k, v = raw_v, b.assign(a.size(), Real(0));
    const std::span<const Real> v0 = layer ? m.w(att + "v0") : std::span<const Real>();
    for (size_t t = 0; t < time; ++t)
      kernel::reference::time_mix_inputs<Real>(
          {m.shape.head_size, row_of(w, t, n), row_of(a, t, n), row_of(b, t, n), row_of(k, t, n),
           row_of(v, t, n), row_of(gate, t, n), layer ? row_of(v_first, t, n) : std::span<Real>(),
           m.w(att + "w0"), m.w(att + "a0"), v0, m.w(att + "k_k"), m.w(att + "k_a"), m.shape.norms.key});
    if (m.sane) tau.forward(u);
    read.assign(v.size(), Real(0));
    const Rwkv7Shape& s = m.shape;
    memory.assign(size_t(s.channels * s.head_size), Real(0));
    kernel::DeltaRule<Real> op = recurrence(int64_t(time));
    op.final_state = {memory.data(), {1, s.heads, s.head_size, s.head_size}};
    kernel::reference::delta_rule(op);
    y = read;
    for (size_t t = 0; t < time; ++t)
      kernel::reference::time_mix_output<Real>({m.shape.head_size, row_of(y, t, n), row_of(r, t, n),
                                                row_of(k, t, n), row_of(v, t, n), row_of(g, t, n),
                                                m.w(att + "ln_x.weight"), m.w(att + "ln_x.bias"),
                                                m.w(att + "r_k"), Real(m.shape.norms.group_eps)});
    return linear("output.weight").forward(y);
  }

  // From the gradient of the result to that of u; dv_first is added to, and taken in layer 0.
  Rows<Real> backward(const Rows<Real>& dresult, Rows<Real>& v_first, Rows<Real>& dv_first) {
    const size_t n = channels(), time = u.size() / n;
    Rows<Real> dy = linear("output.weight").backward(y, dresult);
    Rows<Real> dr(dy.size()), dk(dy.size()), dv(dy.size()), dg(dy.size());
    for (size_t t = 0; t < time; ++t)
      kernel::reference::time_mix_output_backward<Real>(
          {m.shape.head_size, row_of(read, t, n), row_of(r, t, n), row_of(k, t, n), row_of(v, t, n),
           row_of(g, t, n), m.w(att + "ln_x.weight"), m.w(att + "ln_x.bias"), m.w(att + "r_k"),
           Real(m.shape.norms.group_eps), row_of(dy, t, n), row_of(dr, t, n), row_of(dk, t, n),
           row_of(dv, t, n), row_of(dg, t, n), m.dw(att + "ln_x.weight"), m.dw(att + "ln_x.bias"),
           m.dw(att + "r_k")});

    const kernel::DeltaRule<Real> op = recurrence(int64_t(time));
    Rows<Real> sr(dy.size()), dw(dy.size()), sk(dy.size()), sv(dy.size()), da(dy.size()),
        db(dy.size()), dtau(tau.tau.size());
    kernel::DeltaRuleGradient<Real> d;
    d.dy = {dy.data(), op.y.shape};
    d.dr = {sr.data(), op.y.shape}, d.dw = {dw.data(), op.y.shape}, d.dk = {sk.data(), op.y.shape};
    d.dv = {sv.data(), op.y.shape}, d.da = {da.data(), op.y.shape}, d.db = {db.data(), op.y.shape};
    if (op.tau) d.dtau = {dtau.data(), op.tau.shape};
    kernel::reference::delta_rule_backward(op, d);
    add(sr, dr), add(sk, dk), add(sv, dv);

    Rows<Real> dgate(gate.size());
    Rows<Real> none;
    const std::span<const Real> v0 = layer ? m.w(att + "v0") : std::span<const Real>();
    const std::span<Real> dv0 = layer ? m.dw(att + "v0") : std::span<Real>();
    for (size_t t = 0; t < time; ++t)
      kernel::reference::time_mix_inputs_backward<Real>({m.shape.head_size,
                                                         row_of(raw_w, t, n),
                                                         row_of(raw_a, t, n),
                                                         row_of(raw_k, t, n),
                                                         row_of(raw_v, t, n),
                                                         row_of(gate, t, n),
                                                         row_of(layer ? v_first : none, t, n),
                                                         m.w(att + "w0"),
                                                         m.w(att + "a0"),
                                                         v0,
                                                         m.w(att + "k_k"),
                                                         m.w(att + "k_a"),
                                                         row_of(dw, t, n),
                                                         row_of(da, t, n),
                                                         row_of(dk, t, n),
                                                         row_of(dv, t, n),
                                                         row_of(db, t, n),
                                                         row_of(dgate, t, n),
                                                         row_of(layer ? dv_first : none, t, n),
                                                         m.dw(att + "w0"),
                                                         m.dw(att + "a0"),
                                                         dv0,
                                                         m.dw(att + "k_k"),
                                                         m.dw(att + "k_a"),
                                                         m.shape.norms.key});
    if (layer == 0) add(dv_first, dv);

    Rows<Real> du(u.size(), Real(0));
    shift("x_r").backward(u, linear("receptance.weight").backward(mix_r, dr), du);
    shift("x_k").backward(u, linear("key.weight").backward(mix_k, dk), du);
    Rows<Real> dmix_v = linear("value.weight").backward(mix_v, dv);
    if (layer) add(factor("v1").backward(mix_v, factor("v2").backward(low_v, dgate)), dmix_v);
    shift("x_v").backward(u, dmix_v, du);
    Rows<Real> dlow = factor("w2").backward(low_w, dw);
    for (size_t i = 0; i < dlow.size(); ++i) dlow[i] *= 1 - low_w[i] * low_w[i];
    shift("x_w").backward(u, factor("w1").backward(mix_w, dlow), du);
    shift("x_a").backward(u, factor("a1").backward(mix_a, factor("a2").backward(low_a, da)), du);
    dlow = factor("g2").backward(low_g, dg);
    for (size_t i = 0; i < dlow.size(); ++i) dlow[i] *= low_g[i] * (1 - low_g[i]);
    shift("x_g").backward(u, factor("g1").backward(mix_g, dlow), du);
    if (op.tau) tau.backward(u, dtau, du);
    m.leave_out_padding(du);
    return du;
  }
};

template <class Real>
struct ChannelMix {
  const Model<Real>& m;
  std::string ffn;
  Rows<Real> u, mix, before, hidden;

  Rows<Real> forward(Rows<Real> input) {
    u = std::move(input);
    m.leave_out_padding(u);
    mix = Shift<Real>{m, ffn + "x_k"}.forward(u);
    before = Linear<Real>{m, ffn + "key.weight"}.forward(mix);
    hidden = before;
    for (Real& x : hidden) x = x > 0 ? x * x : Real(0);
    return Linear<Real>{m, ffn + "value.weight"}.forward(hidden);
  }
  Rows<Real> backward(const Rows<Real>& dresult) {
    Rows<Real> d = Linear<Real>{m, ffn + "value.weight"}.backward(hidden, dresult);
    for (size_t i = 0; i < d.size(); ++i) d[i] *= before[i] > 0 ? 2 * before[i] : Real(0);
    Rows<Real> du(u.size(), Real(0));
    Shift<Real>{m, ffn + "x_k"}.backward(u, Linear<Real>{m, ffn + "key.weight"}.backward(mix, d),
                                         du);
    m.leave_out_padding(du);
    return du;
  }
};

}  // namespace deltasane::reference::layers
