#include "toy/training_loss.h"

#include "kernel/cross_entropy/reference.h"
#include "toy/vectors.h"

namespace deltasane::toy {
namespace {

using Rows = std::vector<Vector>;  // a vector per token

// A parameter; its gradient is added to, and is empty where only the loss is wanted.
struct Weight {
  std::span<const double> value;
  std::span<double> gradient;
};

// Adds to the gradient of y = W x; returns dx.
Vector product_backward(const Weight& w, const Vector& x, const Vector& dy) {
  Vector dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) {
      w.gradient[i * x.size() + j] += dy[i] * x[j];
      dx[j] += w.value[i * x.size() + j] * dy[i];
    }
  return dx;
}

Vector normalized_backward(const Vector& x, const Vector& dy) {
  const double root = root_mean_square(x);
  double along = 0;
  for (size_t i = 0; i < x.size(); ++i) along += dy[i] * x[i] / root / double(x.size());
  Vector dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) dx[i] = (dy[i] - x[i] / root * along) / root;
  return dx;
}

Vector part_of(const Vector& x, size_t part, size_t size) {
  const auto begin = x.begin() + std::ptrdiff_t(part * size);
  return {begin, begin + std::ptrdiff_t(size)};
}

// What is known of a sequence before it is computed.
struct Tokens {
  std::vector<bool> present, neutralized;  // of each token; neutralized: memories, after it
  size_t channels;
  size_t time() const { return present.size(); }
};

class Convolution {
 public:
  explicit Convolution(Weight weight) : weight_(weight) {}

  Rows forward(const Rows& x) const {
    Rows u(x.size(), Vector(x[0].size()));
    each_tap(x, [&](size_t t, size_t from, size_t i, size_t c) {
      u[t][c] += weight_.value[i] * x[from][c];
    });
    return u;
  }
  void backward(const Rows& x, const Rows& du, Rows& dx) const {
    each_tap(x, [&](size_t t, size_t from, size_t i, size_t c) {
      weight_.gradient[i] += du[t][c] * x[from][c];
      dx[from][c] += weight_.value[i] * du[t][c];
    });
  }

 private:
  // visit(token, token that it takes, index of the weight, channel)
  template <class Visit>
  void each_tap(const Rows& x, Visit visit) const {
    const size_t channels = x[0].size(), taps = weight_.value.size() / channels;
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t tap = 0; tap < taps; ++tap)
        if (t + tap + 1 >= taps)
          for (size_t c = 0; c < channels; ++c) visit(t, t + tap + 1 - taps, tap * channels + c, c);
  }
  Weight weight_;
};

class Memory {
 public:
  struct Weights {
    Weight decay, query, key, value, out, tau;
  };
  Memory(const MemorySizes& sizes, const Weights& weights, double alpha)
      : heads_(size_t(sizes.heads)),
        values_(size_t(sizes.values)),
        keys_(size_t(sizes.keys)),
        w_(weights),
        alpha_(alpha) {}

  void forward(const Tokens& tokens, const Rows& u, Rows& x) {
    Vector S(heads_ * values_ * keys_);
    kept_.assign(tokens.time(), {});
    for (size_t t = 0; t < tokens.time(); ++t) {
      Kept& kept = kept_[t];
      kept.before = S;
      if (!tokens.present[t]) continue;
      kept.q = product(w_.query.value, u[t]), kept.k = product(w_.key.value, u[t]);
      kept.v = product(w_.value.value, u[t]);
      kept.y.resize(heads_ * values_);
      each_entry([&](size_t h, size_t e, size_t i, size_t j) {
        S[e] = w_.decay.value[h] * S[e] + kept.v[i] * kept.k[j];
        kept.y[i] += S[e] * kept.q[j];
      });
      kept.S = S;
      for (size_t h = 0; h < heads_; ++h)
        for (const double v : normalized(part_of(kept.y, h, values_))) kept.scaled.push_back(v);
      add(x[t], product(w_.out.value, kept.scaled));
      if (!tokens.neutralized[t]) continue;
      const Vector z = product(w_.tau.value, u[t]);
      each_entry([&](size_t h, size_t e, size_t, size_t) {
        const double tau = alpha_ * softplus(z[h]) + 1;
        S[e] = tau * std::tanh(S[e] / tau);
      });
    }
  }

  void backward(const Tokens& tokens, const Rows& u, const Rows& dx, Rows& du) const {
    Vector dS(heads_ * values_ * keys_);  // of the state behind the token
    for (size_t t = tokens.time(); t-- > 0;) {
      if (!tokens.present[t]) continue;
      const Kept& kept = kept_[t];
      if (tokens.neutralized[t]) neutralize_backward(kept.S, u[t], dS, du[t]);
      const Vector dscaled = product_backward(w_.out, kept.scaled, dx[t]);
      Vector dy;
      for (size_t h = 0; h < heads_; ++h)
        for (const double v :
             normalized_backward(part_of(kept.y, h, values_), part_of(dscaled, h, values_)))
          dy.push_back(v);
      Vector dq(kept.q.size()), dk(kept.k.size()), dv(kept.v.size());
      each_entry([&](size_t h, size_t e, size_t i, size_t j) {
        dS[e] += dy[i] * kept.q[j];
        dq[j] += dy[i] * kept.S[e];
        dv[i] += dS[e] * kept.k[j];
        dk[j] += dS[e] * kept.v[i];
        w_.decay.gradient[h] += dS[e] * kept.before[e];
        dS[e] *= w_.decay.value[h];
      });
      add(du[t], product_backward(w_.query, u[t], dq));
      add(du[t], product_backward(w_.key, u[t], dk));
      add(du[t], product_backward(w_.value, u[t], dv));
    }
  }

 private:
  // `before` and `S`: the state in front of the token, and behind it but not yet neutralized.
  struct Kept {
    Vector before, S, q, k, v, y, scaled;
  };

  // S' = tau tanh(S / tau): dS becomes the gradient of S.
  void neutralize_backward(const Vector& S, const Vector& u, Vector& dS, Vector& du) const {
    const Vector z = product(w_.tau.value, u);
    Vector dz(heads_);
    each_entry([&](size_t h, size_t e, size_t, size_t) {
      const double tau = alpha_ * softplus(z[h]) + 1, part = S[e] / tau, bent = std::tanh(part);
      const double slope = 1 - bent * bent;
      dz[h] += dS[e] * (bent - part * slope) * alpha_ / (1 + std::exp(-z[h]));
      dS[e] *= slope;
    });
    add(du, product_backward(w_.tau, u, dz));
  }

  // visit(head, index in S, index of its value, index of its key)
  template <class Visit>
  void each_entry(Visit visit) const {
    for (size_t h = 0, e = 0; h < heads_; ++h)
      for (size_t i = h * values_; i < (h + 1) * values_; ++i)
        for (size_t j = h * keys_; j < (h + 1) * keys_; ++j) visit(h, e++, i, j);
  }

  size_t heads_, values_, keys_;
  Weights w_;
  double alpha_;
  std::vector<Kept> kept_;
};

class Cache {
 public:
  Cache(Weight query, Weight key, Weight value, Weight out)
      : query_(query), key_(key), value_(value), out_(out) {}

  void forward(const Tokens& tokens, const Rows& u, Rows& x) {
    const size_t time = tokens.time();
    q_.resize(time), k_.resize(time), v_.resize(time), read_.resize(time), weights_.resize(time);
    for (size_t t = 0; t < time; ++t) {
      if (!tokens.present[t]) continue;
      q_[t] = product(query_.value, u[t]), k_[t] = product(key_.value, u[t]);
      v_[t] = product(value_.value, u[t]);
      weights_[t].assign(t + 1, 0);
      double largest = dot(q_[t], k_[t]), sum = 0;
      for (size_t s = 0; s < t; ++s)
        if (tokens.present[s]) largest = std::max(largest, dot(q_[t], k_[s]));
      for (size_t s = 0; s <= t; ++s)
        if (tokens.present[s])
          sum += weights_[t][s] = std::exp((dot(q_[t], k_[s]) - largest) * scale(t));
      read_[t].assign(q_[t].size(), 0);
      for (size_t s = 0; s <= t; ++s) {
        weights_[t][s] /= sum;
        if (tokens.present[s]) add_scaled(read_[t], weights_[t][s], v_[s]);
      }
      add(x[t], product(out_.value, read_[t]));
    }
  }

  void backward(const Tokens& tokens, const Rows& u, const Rows& dx, Rows& du) const {
    Rows dk(tokens.time()), dv(tokens.time());
    for (size_t t = tokens.time(); t-- > 0;) {
      if (!tokens.present[t]) continue;
      const Vector dread = product_backward(out_, read_[t], dx[t]);
      const double along = dot(dread, read_[t]);
      Vector dq(q_[t].size());
      for (size_t s = 0; s <= t; ++s) {
        if (!tokens.present[s]) continue;
        const double d = weights_[t][s] * (dot(dread, v_[s]) - along) * scale(t);
        dk[s].resize(dq.size()), dv[s].resize(dq.size());
        add_scaled(dq, d, k_[s]);
        add_scaled(dk[s], d, q_[t]);
        add_scaled(dv[s], weights_[t][s], dread);
      }
      add(du[t], product_backward(query_, u[t], dq));
      // No token in front of this one reads it: its key and value have their whole gradient.
      add(du[t], product_backward(key_, u[t], dk[t]));
      add(du[t], product_backward(value_, u[t], dv[t]));
    }
  }

 private:
  double scale(size_t t) const { return 1 / std::sqrt(double(q_[t].size())); }
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  static void add_scaled(Vector& x, double scale, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += scale * y[i];
  }

  Weight query_, key_, value_, out_;
  Rows q_, k_, v_, read_, weights_;
};

struct Layer {
  std::optional<Convolution> convolution;
  std::vector<Memory> memories;
  std::optional<Cache> cache;
  Rows x, u;  // kept: the input, and behind the convolution

  Rows forward(const Tokens& tokens, Rows input) {
    x = std::move(input);
    u = convolution ? convolution->forward(x) : x;
    Rows y = x;
    for (Memory& memory : memories) memory.forward(tokens, u, y);
    if (cache) cache->forward(tokens, u, y);
    return y;
  }
  Rows backward(const Tokens& tokens, const Rows& dy) const {
    Rows dx = dy, du(tokens.time(), Vector(tokens.channels));
    for (const Memory& memory : memories) memory.backward(tokens, u, dy, du);
    if (cache) cache->backward(tokens, u, dy, du);
    if (convolution)
      convolution->backward(x, du, dx);
    else
      for (size_t t = 0; t < tokens.time(); ++t) add(dx[t], du[t]);
    return dx;
  }
};

// The parameters by name.
class Weights {
 public:
  Weights(const ParameterLayout& layout, std::span<const double> values, std::span<double> gradient)
      : layout_(layout), values_(values), gradient_(gradient) {}
  Weight operator()(const std::string& name) const {
    if (!layout_.has(name)) return {};
    const ParameterSlot& slot = layout_.slot(name);
    const auto offset = size_t(slot.offset), size = size_t(slot.elements());
    return {values_.subspan(offset, size),
            gradient_.empty() ? gradient_ : gradient_.subspan(offset, size)};
  }

 private:
  const ParameterLayout& layout_;
  std::span<const double> values_;
  std::span<double> gradient_;
};

std::vector<Layer> layers_of(const TrainingModel& model, const Weights& weights) {
  std::vector<Layer> layers;
  for (int64_t n = 0; n < int64_t(model.sizes.layers.size()); ++n) {
    const LayerSizes& sizes = model.sizes.layers[size_t(n)];
    const auto own = [&](const char* name) { return weights(layer_tensor(n, name)); };
    Layer layer;
    if (sizes.taps) layer.convolution.emplace(own("convolution"));
    for (size_t m = 0; m < sizes.memories.size(); ++m) {
      const auto part = [&](const char* name) { return weights(memory_tensor(n, m, name)); };
      layer.memories.push_back(
          {sizes.memories[m],
           {part("decay"), part("query"), part("key"), part("value"), part("out"), part("tau")},
           model.sane ? model.sane->alpha : 0});
    }
    if (sizes.cache)
      layer.cache.emplace(own("cache.query"), own("cache.key"), own("cache.value"),
                          own("cache.out"));
    layers.push_back(std::move(layer));
  }
  return layers;
}

// A chunk with padding in it is not neutralized.
Tokens tokens_of(const TrainingModel& model, const TrainingBatch& batch, int64_t sequence) {
  const auto time = size_t(batch.time), first = size_t(sequence) * time;
  Tokens tokens{std::vector<bool>(time, true), std::vector<bool>(time, false),
                size_t(model.sizes.channels)};
  for (size_t t = 0, whole = 0; t < time; ++t) {
    if (!batch.present.empty()) tokens.present[t] = batch.present[first + t] != 0;
    const auto chunk = size_t(model.sane ? model.sane->chunk : 0);
    if (chunk && t % chunk == 0) whole = 0;
    whole += tokens.present[t];
    tokens.neutralized[t] = chunk && whole == chunk;
  }
  return tokens;
}

}  // namespace

double training_loss(const TrainingModel& model, std::span<const double> parameters,
                     const TrainingBatch& batch, int64_t sequence, const LossSettings& settings,
                     std::span<double> gradient) {
  const Tokens tokens = tokens_of(model, batch, sequence);
  const Weights weights(model.layout, parameters, gradient);
  std::vector<Layer> layers = layers_of(model, weights);
  const size_t channels = tokens.channels, first = size_t(sequence * batch.time);
  const Weight embedding = weights("embedding.weight"), head = weights("head.weight");

  Rows x(tokens.time(), Vector(channels));  // padding is a row of zeros
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t c = 0; tokens.present[t] && c < channels; ++c)
      x[t][c] = embedding.value[size_t(batch.tokens[first + t]) * channels + c];
  for (Layer& layer : layers) x = layer.forward(tokens, std::move(x));

  double loss = 0;
  Rows dx(x.size());
  for (size_t t = 0; t < x.size(); ++t) {
    const Vector y = normalized(x[t]);
    Vector logits = product(head.value, y);
    loss += kernel::reference::cross_entropy<double>(
        logits, batch.targets[first + t], double(batch.weights[first + t]) / settings.weight_total,
        settings.wrap);
    if (!gradient.empty()) dx[t] = normalized_backward(x[t], product_backward(head, y, logits));
  }
  if (gradient.empty()) return loss;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    dx = layer->backward(tokens, dx);
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t c = 0; tokens.present[t] && c < channels; ++c)
      embedding.gradient[size_t(batch.tokens[first + t]) * channels + c] += dx[t][c];
  return loss;
}

}  // namespace deltasane::toy
