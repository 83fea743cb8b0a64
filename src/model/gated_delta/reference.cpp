#include "model/gated_delta/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel/sane/reference.h"
#include "tensor/rounded_number.h"
#include "tensor/tape.h"

namespace deltasane::gated_delta::reference {
namespace {

using std::exp, std::log, std::sqrt, std::tanh;  // or those of Real

template <class Real>
using Rows = std::vector<std::vector<Real>>;  // of each token

template <class Real>
Real sigmoid(Real x) {
  return 1 / (1 + exp(-x));
}
template <class Real>
Real silu(Real x) {
  return x * sigmoid(x);
}

template <class Real>
class Forward {
 public:
  Forward(const Config& config, const ReadTensor<Real>& read, const SaneUse& sane,
          std::span<const uint8_t> present, std::span<const float> alphas)
      : c(config), read_(read), sane_(sane), present_(present), alphas_(alphas) {}

  Outcome<Real> run(std::span<const int32_t> tokens) {
    const std::vector<Real> table = read_("embedding.weight");
    const auto width = size_t(c.channels);
    Rows<Real> x;
    for (const int32_t token : tokens)
      x.emplace_back(table.begin() + int64_t(size_t(token) * width),
                     table.begin() + int64_t((size_t(token) + 1) * width));
    for (int64_t n = 0; n < c.layers(); ++n) {
      here_ = cat("layers.", n, ".");
      const Mixer mixer = c.mixers[size_t(n)];
      const bool after = c.norms_after && mixer == Mixer::attention;
      half(x, "mixer", after, [&](const Rows<Real>& h) {
        return mixer == Mixer::recurrent   ? recurrent(h)
               : mixer == Mixer::attention ? attention(h)
                                           : latent(h);
      });
      half(x, "ffn", after, [&](const Rows<Real>& h) {
        return c.experts[size_t(n)] ? experts(h) : network(h, "ffn.");
      });
    }
    const std::vector<Real> norm = read_("norm.weight");
    const std::vector<Real> head = c.tied ? table : read_("head.weight");
    for (const auto& row : x)
      for (const Real logit : times(head, rms(row, norm, c.norm_eps)))
        outcome_.logits.push_back(logit);
    return outcome_;
  }

 private:
  std::vector<Real> own(const std::string& name) const { return read_(here_ + name); }
  bool present(size_t t) const { return present_.empty() || present_[t] != 0; }

  static std::vector<Real> times(const std::vector<Real>& matrix, const std::vector<Real>& x) {
    std::vector<Real> y(matrix.size() / x.size());
    for (size_t i = 0; i < y.size(); ++i)
      for (size_t j = 0; j < x.size(); ++j) y[i] += matrix[i * x.size() + j] * x[j];
    return y;
  }
  Rows<Real> product(const std::string& name, const Rows<Real>& h) const {
    const std::vector<Real> matrix = own(name);
    Rows<Real> y;
    for (const auto& row : h) y.push_back(times(matrix, row));
    return y;
  }
  // Of each piece of weight.size() numbers.
  static std::vector<Real> rms(std::vector<Real> x, const std::vector<Real>& weight, double eps) {
    const size_t n = weight.size();
    for (size_t at = 0; at < x.size(); at += n) {
      Real mean = 0;
      for (size_t i = 0; i < n; ++i) mean += x[at + i] * x[at + i] / Real(n);
      for (size_t i = 0; i < n; ++i) x[at + i] *= weight[i] / sqrt(mean + Real(float(eps)));
    }
    return x;
  }
  static void unit(std::vector<Real>& x, size_t at, size_t n, Real scale) {
    Real sum = Real(1e-6f);
    for (size_t i = 0; i < n; ++i) sum += x[at + i] * x[at + i];
    for (size_t i = 0; i < n; ++i) x[at + i] *= scale / sqrt(sum);
  }

  template <class Body>
  void half(Rows<Real>& x, const std::string& name, bool after, const Body& body) {
    const std::vector<Real> norm = own(name + (after ? "_output_norm.weight" : "_norm.weight"));
    Rows<Real> h = x;
    if (!after)
      for (auto& row : h) row = rms(row, norm, c.norm_eps);
    const Rows<Real> y = body(h);
    for (size_t t = 0; t < x.size(); ++t) {
      const std::vector<Real> more = after ? rms(y[t], norm, c.norm_eps) : y[t];
      for (size_t i = 0; i < more.size(); ++i) x[t][i] += more[i];
    }
  }

  Rows<Real> convolved(const Rows<Real>& x) const {
    Rows<Real> y = x;
    const std::vector<Real> weight =
        c.taps ? own("mixer.convolution.weight") : std::vector<Real>(x[0].size(), Real(1));
    const size_t taps = c.taps ? size_t(c.taps) : 1;
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i) {
        Real sum = 0;
        for (size_t j = 0; j < taps && j <= t; ++j)
          sum += weight[i * taps + taps - 1 - j] * x[t - j][i];
        y[t][i] = silu(sum);
      }
    return y;
  }

  Real decay(Real z, Real bias, Real rate) const {
    const Real x = z + bias;
    if (c.decay_bound != 0) return exp(Real(c.decay_bound) * sigmoid(rate * x));
    return exp(rate * log(sigmoid(-x)));
  }

  bool ends_chunk(size_t t) const {
    return sane_.kind != SaneKind::none && (int64_t(t) + 1) % sane_.chunk == 0;
  }

  Rows<Real> recurrent(const Rows<Real>& h) {
    const auto K = size_t(c.key_size), V = size_t(c.value_size), H = size_t(c.value_heads);
    const size_t key_heads = size_t(c.key_heads), D = key_heads * K;
    Rows<Real> projected = product("mixer.qkv.weight", h);
    for (size_t t = 0; t < h.size(); ++t)
      if (!present(t)) projected[t].assign(projected[t].size(), Real(0));
    Rows<Real> qkv = convolved(projected);
    for (auto& row : qkv)
      for (size_t g = 0; g < key_heads; ++g) {
        unit(row, g * K, K, 1 / sqrt(Real(K)));
        unit(row, D + g * K, K, 1);
      }
    const bool decays = c.rule != kernel::Rule::deltanet, kda = c.rule == kernel::Rule::kda;
    Rows<Real> z, beta, gate;
    if (kda) z = product("mixer.decay_up.weight", product("mixer.decay_down.weight", h));
    if (decays && !kda) z = product("mixer.decay.weight", h);
    if (c.beta_scale != 0) beta = product("mixer.beta.weight", h);
    if (c.gate != OutputGate::none)
      gate = c.gate_rank
                 ? product("mixer.gate_up.weight", product("mixer.gate_down.weight", h))
                 : product("mixer.gate.weight", h);
    std::vector<Real> rate = decays ? own("mixer.decay_log_rate") : std::vector<Real>();
    for (Real& one : rate) one = exp(one);
    const std::vector<Real> bias = decays ? own("mixer.decay_bias") : std::vector<Real>();
    const std::vector<Real> gate_bias = c.gate_bias ? own("mixer.gate_bias") : std::vector<Real>();
    const std::vector<Real> norm = own("mixer.output_norm.weight");
    const std::vector<Real> w_tau =
        sane_.kind == SaneKind::trained ? own("mixer.w_tau") : std::vector<Real>();
    std::vector<Real> S(H * V * K);
    Rows<Real> out;
    bool whole = true;  // no padding in the chunk so far
    for (size_t t = 0; t < h.size(); ++t) {
      std::vector<Real> y(H * V);
      whole = whole && present(t);
      for (size_t j = 0; j < H && present(t); ++j) {
        const size_t g = j / (H / key_heads);
        const Real *const q = &qkv[t][g * K], *const k = &qkv[t][D + g * K];
        const Real* const v = &qkv[t][2 * D + j * V];
        const Real b = beta.empty() ? Real(1) : Real(c.beta_scale) * sigmoid(beta[t][j]);
        for (size_t i = 0; i < V; ++i) {
          Real* const row = &S[(j * V + i) * K];
          Real recalled = 0;
          for (size_t n = 0; n < K; ++n) {
            const size_t at = kda ? j * K + n : j;
            if (decays) row[n] *= decay(z[t][at], bias[at], rate[j]);
            recalled += row[n] * k[n];
          }
          for (size_t n = 0; n < K; ++n) {
            row[n] += b * (v[i] - recalled) * k[n];
            y[j * V + i] += row[n] * q[n];
          }
        }
        if (ends_chunk(t) && whole) {
          Real z_tau = 0;
          for (size_t i = 0; i < h[t].size() && !w_tau.empty(); ++i)
            z_tau += h[t][i] * w_tau[i * H + j];
          const double alpha =
              alphas_.empty() ? sane_.alpha : double(alphas_[outcome_.memories.size() * H + j]);
          const Real tau = kernel::reference::tau_of(z_tau, Real(alpha));
          for (size_t i = j * V * K; i < (j + 1) * V * K; ++i) S[i] = tau * tanh(S[i] / tau);
        }
      }
      if (ends_chunk(t)) whole = true;
      y = rms(y, norm, c.output_norm_eps);
      for (size_t i = 0; i < y.size() && !gate.empty(); ++i) {
        const Real g = gate[t][i] + (gate_bias.empty() ? 0 : gate_bias[i]);
        y[i] *= c.gate == OutputGate::silu ? silu(g) : sigmoid(g);
      }
      out.push_back(y);
    }
    outcome_.memories.push_back(S);
    return product("mixer.output.weight", out);
  }

  // softmax over the tokens up to t of scale q k(s), times v(s)
  template <class Key, class Value>
  std::vector<Real> attend(size_t t, const std::vector<Real>& q, Real scale, size_t width,
                           const Key& key, const Value& value) const {
    std::vector<size_t> all, seen;  // tokens up to t, and those in the window
    for (size_t s = 0; s <= t; ++s)
      if (present(s)) all.push_back(s);
    for (size_t n = 0; n < all.size(); ++n)
      if (c.window == 0 || all.size() - n <= size_t(c.window) || n < size_t(c.kept))
        seen.push_back(all[n]);
    std::vector<Real> weight, y(width);
    if (!present(t)) return y;
    for (const size_t s : seen) {
      Real sum = 0;
      for (size_t i = 0; i < q.size(); ++i) sum += scale * q[i] * key(s, i);
      weight.push_back(sum);
    }
    const Real largest = *std::ranges::max_element(weight);
    Real total = 0;
    for (Real& one : weight) total += one = exp(one - largest);
    for (size_t n = 0; n < seen.size(); ++n)
      for (size_t i = 0; i < width; ++i) y[i] += weight[n] / total * value(seen[n], i);
    return y;
  }

  void rotate(std::vector<Real>& x, size_t position) const {
    const auto half = size_t(c.rotary / 2), size = size_t(c.head_size);
    for (size_t at = 0; at < x.size(); at += size)
      for (size_t i = 0; i < half; ++i) {
        const double angle =
            double(position) * std::pow(c.theta, -2.0 * double(i) / double(c.rotary));
        const Real a = x[at + i], b = x[at + i + half];
        x[at + i] = a * Real(std::cos(angle)) - b * Real(std::sin(angle));
        x[at + i + half] = b * Real(std::cos(angle)) + a * Real(std::sin(angle));
      }
  }

  Rows<Real> attention(const Rows<Real>& h) {
    const auto size = size_t(c.head_size), together = size_t(c.heads / c.kv_heads);
    Rows<Real> q = product("mixer.q.weight", h), k = product("mixer.k.weight", h), out;
    const Rows<Real> v = product("mixer.v.weight", h);
    const Rows<Real> gate = c.attention_gate ? product("mixer.gate.weight", h) : Rows<Real>();
    for (size_t t = 0; t < h.size(); ++t) {
      if (c.qk_norm != QkNorm::none) {
        q[t] = rms(q[t], own("mixer.q_norm.weight"), c.norm_eps);
        k[t] = rms(k[t], own("mixer.k_norm.weight"), c.norm_eps);
      }
      rotate(q[t], t), rotate(k[t], t);
    }
    for (size_t t = 0; t < h.size(); ++t) {
      std::vector<Real> y;
      for (size_t head = 0; head < size_t(c.heads); ++head) {
        const size_t at = head / together * size;
        const std::vector<Real> own_q(q[t].begin() + int64_t(head * size),
                                      q[t].begin() + int64_t((head + 1) * size));
        const std::vector<Real> read = attend(
            t, own_q, 1 / sqrt(Real(size)), size,
            [&](size_t s, size_t i) { return k[s][at + i]; },
            [&](size_t s, size_t i) { return v[s][at + i]; });
        y.insert(y.end(), read.begin(), read.end());
      }
      for (size_t i = 0; i < y.size() && !gate.empty(); ++i) y[i] *= sigmoid(gate[t][i]);
      out.push_back(y);
    }
    return product("mixer.output.weight", out);
  }

  // With keys and values of every head made, as the definition has them.
  Rows<Real> latent(const Rows<Real>& h) {
    const auto K = size_t(c.latent_key_size), P = size_t(c.shared_key_size);
    const auto V = size_t(c.latent_value_size), L = size_t(c.latent_size);
    const Rows<Real> q = product("mixer.q.weight", h), down = product("mixer.kv_down.weight", h);
    const std::vector<Real> norm = own("mixer.kv_norm.weight");
    const std::vector<Real> k_up = own("mixer.k_up.weight"), v_up = own("mixer.v_up.weight");
    Rows<Real> l, out(h.size());
    for (const auto& row : down)
      l.push_back(rms({row.begin(), row.begin() + int64_t(L)}, norm, c.latent_norm_eps));
    for (size_t head = 0; head < size_t(c.heads); ++head) {
      Rows<Real> keys, values;
      for (size_t s = 0; s < h.size(); ++s) {
        std::vector<Real> key(K + P), value(V);
        for (size_t i = 0; i < K; ++i)
          for (size_t j = 0; j < L; ++j) key[i] += k_up[(head * L + j) * K + i] * l[s][j];
        for (size_t i = 0; i < P; ++i) key[K + i] = down[s][L + i];
        for (size_t i = 0; i < V; ++i)
          for (size_t j = 0; j < L; ++j) value[i] += v_up[(head * V + i) * L + j] * l[s][j];
        keys.push_back(key), values.push_back(value);
      }
      for (size_t t = 0; t < h.size(); ++t) {
        const std::vector<Real> own_q(q[t].begin() + int64_t(head * (K + P)),
                                      q[t].begin() + int64_t((head + 1) * (K + P)));
        const std::vector<Real> read = attend(
            t, own_q, 1 / sqrt(Real(K + P)), V,
            [&](size_t s, size_t i) { return keys[s][i]; },
            [&](size_t s, size_t i) { return values[s][i]; });
        out[t].insert(out[t].end(), read.begin(), read.end());
      }
    }
    return product("mixer.output.weight", out);
  }

  Rows<Real> network(const Rows<Real>& h, const std::string& name) const {
    Rows<Real> gate = product(name + "gate.weight", h);
    const Rows<Real> up = product(name + "up.weight", h);
    for (size_t t = 0; t < h.size(); ++t)
      for (size_t i = 0; i < up[t].size(); ++i) gate[t][i] = silu(gate[t][i]) * up[t][i];
    return product(name + "down.weight", gate);
  }

  Rows<Real> experts(const Rows<Real>& h) const {
    const auto count = size_t(c.expert_count), used = size_t(c.experts_used);
    const auto I = size_t(c.expert_size), C = size_t(c.channels);
    const Rows<Real> logits = product("ffn.router.weight", h);
    const std::vector<Real> bias =
        c.sigmoid_router ? own("ffn.router_bias") : std::vector<Real>(count);
    const std::vector<Real> gate = own("ffn.experts.gate.weight"),
                            up = own("ffn.experts.up.weight"),
                            down = own("ffn.experts.down.weight");
    Rows<Real> out, shared, shared_gate;
    if (c.shared_expert_size) shared = network(h, "ffn.shared.");
    if (c.shared_expert_size && c.shared_expert_gate)
      shared_gate = product("ffn.shared_gate.weight", h);
    for (size_t t = 0; t < h.size(); ++t) {
      std::vector<Real> score(count);
      Real total = 0;
      for (size_t e = 0; e < count; ++e) {
        score[e] = c.sigmoid_router ? sigmoid(logits[t][e]) : exp(logits[t][e]);
        total += score[e];
      }
      if (!c.sigmoid_router)
        for (Real& one : score) one /= total;
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](size_t a, size_t b) {
        return score[a] + bias[a] > score[b] + bias[b];
      });
      Real sum = 0;
      for (size_t i = 0; i < used; ++i) sum += score[order[i]];
      std::vector<Real> y(C);
      for (size_t i = 0; i < used; ++i) {
        const size_t e = order[i];
        const Real weight = score[e] / (c.renormalize ? sum : Real(1)) * Real(c.expert_scale);
        for (size_t j = 0; j < I; ++j) {
          Real g = 0, u = 0;
          for (size_t n = 0; n < C; ++n)
            g += gate[(e * I + j) * C + n] * h[t][n], u += up[(e * I + j) * C + n] * h[t][n];
          for (size_t n = 0; n < C; ++n)
            y[n] += weight * down[(e * C + n) * I + j] * silu(g) * u;
        }
      }
      for (size_t n = 0; n < C && !shared.empty(); ++n)
        y[n] += shared[t][n] * (shared_gate.empty() ? Real(1) : sigmoid(shared_gate[t][0]));
      out.push_back(y);
    }
    return out;
  }

  const Config& c;
  const ReadTensor<Real>& read_;
  const SaneUse sane_;
  const std::span<const uint8_t> present_;
  const std::span<const float> alphas_;
  std::string here_;
  Outcome<Real> outcome_;
};

}  // namespace

template <class Real>
Outcome<Real> forward(const Config& config, const ReadTensor<Real>& read, const SaneUse& sane,
                      std::span<const int32_t> tokens, std::span<const uint8_t> present,
                      std::span<const float> alphas) {
  return Forward<Real>(config, read, sane, present, alphas).run(tokens);
}

template <class Real>
using Instance = Outcome<Real>(const Config&, const ReadTensor<Real>&, const SaneUse&,
                               std::span<const int32_t>, std::span<const uint8_t>,
                               std::span<const float>);
template Instance<float> forward<float>;
template Instance<double> forward<double>;
template Instance<RoundedNumber> forward<RoundedNumber>;
template Instance<Recorded<float>> forward<Recorded<float>>;
template Instance<Recorded<double>> forward<Recorded<double>>;

}  // namespace deltasane::gated_delta::reference
