#include "model/rwkv7/reference.h"

#include <cmath>

#include "kernel/delta_rule/reference.h"
#include "kernel/rwkv7/reference.h"

namespace deltasane::reference {
namespace {

template <class Real>
using Vector = std::vector<Real>;

template <class Real>
struct Model {
  const Rwkv7Source& source;
  Rwkv7Shape shape;
  SaneStrength sane;

  Vector<Real> tensor(const std::string& name) const {
    const Tensor<float> stored = source.read(name);
    return {stored.span().begin(), stored.span().end()};
  }

  // W x, with W (out, in) as the *.weight tensors have it
  Vector<Real> times(const std::string& name, const Vector<Real>& x) const {
    const Vector<Real> w = tensor(name);
    Vector<Real> y(w.size() / x.size(), Real(0));
    for (size_t i = 0; i < y.size(); ++i)
      for (size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    return y;
  }
  // x F, with F (in, out) as the low-rank factors have it
  Vector<Real> through(const std::string& name, const Vector<Real>& x) const {
    const Vector<Real> f = tensor(name);
    Vector<Real> y(f.size() / x.size(), Real(0));
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * f[i * y.size() + j];
    return y;
  }
  Vector<Real> normed(const std::string& name, const Vector<Real>& x) const {
    Vector<Real> y(x.size());
    kernel::reference::layer_norm<Real>(x, tensor(name + ".weight"), tensor(name + ".bias"),
                                        Real(1e-5f), y);
    return y;
  }
  Vector<Real> mixed(const std::string& mu, const Vector<Real>& u,
                     const Vector<Real>& before) const {
    const Vector<Real> m = tensor(mu);
    Vector<Real> x(u.size());
    for (size_t c = 0; c < u.size(); ++c) x[c] = u[c] + (before[c] - u[c]) * m[c];
    return x;
  }
};

template <class Real>
struct LayerState {
  Vector<Real> att, ffn, memory;
};

// tau of each head where this token ends a chunk; empty otherwise
template <class Real>
Vector<Real> taus(const Model<Real>& m, const std::string& att, const Vector<Real>& u,
                  const Vector<Real>& before, int64_t position) {
  if (m.sane.alpha == 0 || (position + 1) % m.sane.chunk != 0) return {};
  Vector<Real> z(size_t(m.shape.heads), Real(0));
  if (m.shape.sane) z = m.through(att + "w_tau", m.mixed(att + "x_tau", u, before));
  for (Real& x : z) x = Real(m.sane.alpha) * std::log1p(std::exp(x)) + 1;
  return z;
}

template <class Real>
Vector<Real> time_mix(const Model<Real>& m, int64_t layer, Vector<Real> u, LayerState<Real>& state,
                      Vector<Real>& v_first, int64_t position) {
  const std::string att = cat("blocks.", layer, ".att.");
  const auto mix = [&](const char* mu) { return m.mixed(att + mu, u, state.att); };
  const auto low_rank = [&](const char* mu, const char* down, const char* up, auto between) {
    Vector<Real> low = m.through(att + down, mix(mu));
    for (Real& x : low) x = between(x);
    return m.through(att + up, low);
  };
  const auto same = [](Real x) { return x; };
  Vector<Real> r = m.times(att + "receptance.weight", mix("x_r"));
  Vector<Real> k = m.times(att + "key.weight", mix("x_k"));
  Vector<Real> v = m.times(att + "value.weight", mix("x_v"));
  Vector<Real> w = low_rank("x_w", "w1", "w2", [](Real x) { return std::tanh(x); });
  Vector<Real> a = low_rank("x_a", "a1", "a2", same), b(a.size());
  Vector<Real> g = low_rank("x_g", "g1", "g2", [](Real x) { return 1 / (1 + std::exp(-x)); });
  Vector<Real> gate, v0;
  if (layer == 0) {
    v_first = v;
  } else {
    gate = low_rank("x_v", "v1", "v2", same);
    v0 = m.tensor(att + "v0");
  }
  const Vector<Real> w0 = m.tensor(att + "w0"), a0 = m.tensor(att + "a0"),
                     k_k = m.tensor(att + "k_k"), k_a = m.tensor(att + "k_a");
  kernel::reference::time_mix_inputs<Real>(
      {m.shape.head_size, w, a, b, k, v, gate,
       layer ? std::span<const Real>(v_first) : std::span<const Real>(), w0, a0, v0, k_k, k_a});

  const Shape token{1, 1, m.shape.heads, m.shape.head_size};
  const Vector<Real> tau = taus(m, att, u, state.att, position);
  Vector<Real> y(v.size());
  kernel::DeltaRule<Real> op;
  op.r = {r.data(), token}, op.w = {w.data(), token}, op.k = {k.data(), token};
  op.v = {v.data(), token}, op.a = {a.data(), token}, op.b = {b.data(), token};
  op.y = {y.data(), token};
  if (!tau.empty()) op.tau = {tau.data(), {1, 1, m.shape.heads}};
  op.chunk = m.sane.chunk;
  op.position = {&position, {1}};
  const View<Real> memory{state.memory.data(),
                          {1, m.shape.heads, m.shape.head_size, m.shape.head_size}};
  op.initial = memory;
  op.final_state = memory;
  kernel::reference::delta_rule(op);

  const Vector<Real> weight = m.tensor(att + "ln_x.weight"), bias = m.tensor(att + "ln_x.bias"),
                     r_k = m.tensor(att + "r_k");
  kernel::reference::time_mix_output<Real>(
      {m.shape.head_size, y, r, k, v, g, weight, bias, r_k, Real(64e-5f)});
  state.att = std::move(u);
  return m.times(att + "output.weight", y);
}

template <class Real>
Vector<Real> channel_mix(const Model<Real>& m, int64_t layer, Vector<Real> u,
                         LayerState<Real>& state) {
  const std::string ffn = cat("blocks.", layer, ".ffn.");
  Vector<Real> h = m.times(ffn + "key.weight", m.mixed(ffn + "x_k", u, state.ffn));
  for (Real& x : h) x = x > 0 ? x * x : Real(0);
  state.ffn = std::move(u);
  return m.times(ffn + "value.weight", h);
}

}  // namespace

template <class Real>
Rwkv7Result<Real> rwkv7(const Rwkv7Source& source, const Rwkv7Shape& shape,
                        const SaneStrength& sane, std::span<const int32_t> tokens) {
  const Model<Real> m{source, shape, sane};
  const size_t C = size_t(shape.channels);
  std::vector<LayerState<Real>> states(size_t(shape.layers),
                                       {Vector<Real>(C, Real(0)), Vector<Real>(C, Real(0)),
                                        Vector<Real>(C * size_t(shape.head_size), Real(0))});
  Rwkv7Result<Real> result;
  const Vector<Real> embedding = m.tensor("emb.weight");
  for (size_t t = 0; t < tokens.size(); ++t) {
    const auto row = embedding.begin() + int64_t(tokens[t]) * int64_t(C);
    Vector<Real> x(row, row + int64_t(C)), v_first;
    if (shape.embedding_norm) x = m.normed("blocks.0.ln0", x);
    const auto add = [&](const Vector<Real>& change) {
      for (size_t c = 0; c < C; ++c) x[c] += change[c];
    };
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      const std::string block = cat("blocks.", layer);
      LayerState<Real>& state = states[size_t(layer)];
      add(time_mix(m, layer, m.normed(block + ".ln1", x), state, v_first, int64_t(t)));
      add(channel_mix(m, layer, m.normed(block + ".ln2", x), state));
    }
    const Vector<Real> logits = m.times("head.weight", m.normed("ln_out", x));
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  }
  for (const LayerState<Real>& state : states)
    result.memory.insert(result.memory.end(), state.memory.begin(), state.memory.end());
  return result;
}

template Rwkv7Result<float> rwkv7(const Rwkv7Source&, const Rwkv7Shape&, const SaneStrength&,
                                  std::span<const int32_t>);
template Rwkv7Result<double> rwkv7(const Rwkv7Source&, const Rwkv7Shape&, const SaneStrength&,
                                   std::span<const int32_t>);

}  // namespace deltasane::reference
