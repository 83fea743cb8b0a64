#include "kernel/delta_rule/lower.h"

#include <algorithm>
#include <utility>

namespace deltasane::kernel {
namespace {

// Of all keys of a head; not for kda and generalized.
float decay_of(const DeltaRule<float>& op, int64_t b, int64_t t, int64_t h) {
  return op.rule == Rule::deltanet ? 1.0f : op.w(b, t, h);
}

// Calls body(b, t) for every token, a few at a time on each thread.
template <class Body>
void each_token(const DeltaRule<float>& op, const Cpu& cpu, const Body& body) {
  const int64_t batch = op.v.shape[0], time = op.v.shape[1];
  constexpr int64_t together = 16;
  cpu.threads.parallel((batch * time + together - 1) / together, [&](int64_t piece) {
    const int64_t end = std::min(batch * time, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row) body(row / time, row % time);
  });
}

// Rows of `wanted` numbers: those of `from`, then `filler`.
Tensor<float> widened(const View<const float>& from, int64_t wanted, float filler = 0) {
  const Shape& shape = from.shape;
  Tensor<float> to({shape[0], shape[1], shape[2], wanted});
  to.fill(filler);
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      for (int64_t h = 0; h < shape[2]; ++h)
        std::copy_n(from.at(i, j, h), shape[3], to.view().at(i, j, h));
  return to;
}

// Back again, without the zeros.
void store_narrowed(const Tensor<float>& from, const View<float>& to) {
  const Shape& shape = to.shape;
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      for (int64_t h = 0; h < shape[2]; ++h)
        std::copy_n(from.view().at(i, j, h), shape[3], to.at(i, j, h));
}

// The other rules, in the generalized form.
Lowered generalized(const DeltaRule<float>& op, int64_t keys, const Cpu& cpu) {
  const int64_t batch = op.v.shape[0], time = op.v.shape[1], heads = op.v.shape[2];
  const int64_t values = op.v.shape[3], own_keys = op.k.shape[3];
  const int64_t heads_per_key_head = heads / op.k.shape[2];
  const Shape vectors{batch, time, heads, keys};
  Lowered low{Tensor<float>(vectors), Tensor<float>(vectors), Tensor<float>(vectors),
              Tensor<float>(op.v.shape), {}, {}, {}, op};
  const View<float> w = low.w.view(), a = low.a.view(), b_ = low.b.view(), v = low.v.view();
  const bool kda = op.rule == Rule::kda;
  each_token(op, cpu, [&](int64_t b, int64_t t) {
    for (int64_t h = 0; h < heads; ++h) {
      const float beta = op.beta(b, t, h);
      const float* const k = op.k.at(b, t, h / heads_per_key_head);
      float *const to_w = w.at(b, t, h), *const to_a = a.at(b, t, h), *const to_b = b_.at(b, t, h);
      if (kda) {
        const float* const decay = op.w.at(b, t, h);
        for (int64_t j = 0; j < own_keys; ++j)
          to_w[j] = decay[j], to_a[j] = decay[j] * k[j], to_b[j] = -beta * k[j];
      } else {
        const float decay = decay_of(op, b, t, h);
        for (int64_t j = 0; j < own_keys; ++j)
          to_w[j] = decay, to_a[j] = k[j], to_b[j] = -decay * beta * k[j];
      }
      for (int64_t j = own_keys; j < keys; ++j) to_w[j] = 1;
      const float* const from_v = op.v.at(b, t, h);
      float* const to_v = v.at(b, t, h);
      for (int64_t i = 0; i < values; ++i) to_v[i] = beta * from_v[i];
    }
  });
  low.op.rule = Rule::generalized;
  low.op.w = low.w.view();
  low.op.a = low.a.view();
  low.op.b = low.b.view();
  low.op.v = low.v.view();
  low.op.beta = {};
  return low;
}

// The generalized rule with more keys.
Lowered widened(const DeltaRule<float>& op, int64_t keys) {
  Lowered low{widened(op.w, keys, 1), widened(op.a, keys), widened(op.b, keys), {}, {}, {}, {}, op};
  low.op.w = low.w.view(), low.op.a = low.a.view(), low.op.b = low.b.view();
  return low;
}

}  // namespace

Lowered lower(const DeltaRule<float>& op, int64_t keys, const Cpu& cpu) {
  const int64_t batch = op.v.shape[0], heads = op.v.shape[2];
  const int64_t values = op.v.shape[3], own_keys = op.k.shape[3];
  Lowered low = op.rule == Rule::generalized ? widened(op, keys) : generalized(op, keys, cpu);
  if (keys == own_keys) return low;
  low.r = widened(op.r, keys), low.k = widened(op.k, keys);
  low.op.r = low.r.view(), low.op.k = low.k.view();
  low.state = op.initial ? widened(op.initial, keys) : Tensor<float>({batch, heads, values, keys});
  low.op.initial = low.state.view();
  low.op.final_state = low.state.view();
  return low;
}

void store_final_state(const Lowered& low, const DeltaRule<float>& op) {
  if (low.state.elements() && op.final_state) store_narrowed(low.state, op.final_state);
}

LoweredGradient lower_gradient(const DeltaRule<float>& lowered,
                               const DeltaRuleGradient<float>& gradient) {
  const Shape vectors = lowered.w.shape;
  LoweredGradient low{Tensor<float>(vectors),         Tensor<float>(vectors),
                      Tensor<float>(vectors),         Tensor<float>(lowered.v.shape),
                      Tensor<float>(vectors),         Tensor<float>(vectors),
                      {},                             {},
                      gradient};
  low.gradient.dr = low.dr.view();
  low.gradient.dw = low.dw.view();
  low.gradient.dk = low.dk.view();
  low.gradient.dv = low.dv.view();
  low.gradient.da = low.da.view();
  low.gradient.db = low.db.view();
  low.gradient.dbeta = {};
  const int64_t keys = vectors[3];
  if (gradient.dfinal && gradient.dfinal.shape[3] != keys) {
    low.dfinal = widened(gradient.dfinal, keys);
    low.gradient.dfinal = low.dfinal.view();
  }
  if (gradient.dinitial && gradient.dinitial.shape[3] != keys) {
    const Shape& states = gradient.dinitial.shape;
    low.dinitial = Tensor<float>({states[0], states[1], states[2], keys});
    low.gradient.dinitial = low.dinitial.view();
  }
  return low;
}

namespace {

// What one head adds to the gradients of its key head, and its own.
void raise_head(const DeltaRule<float>& op, const LoweredGradient& low,
                const DeltaRuleGradient<float>& gradient, int64_t b, int64_t t, int64_t h) {
  const bool kda = op.rule == Rule::kda, present = !op.present || op.present(b, t) != 0;
  const int64_t heads_per_key_head = op.v.shape[2] / op.k.shape[2], keys = op.k.shape[3];
  const int64_t key_head = h / heads_per_key_head, values = op.v.shape[3];
  const bool first = h % heads_per_key_head == 0;
  const float beta = op.beta(b, t, h);
  const float* const k = op.k.at(b, t, key_head);
  const float *const dr = low.dr.view().at(b, t, h), *const dw = low.dw.view().at(b, t, h);
  const float *const dk = low.dk.view().at(b, t, h), *const da = low.da.view().at(b, t, h);
  const float *const db = low.db.view().at(b, t, h), *const dv = low.dv.view().at(b, t, h);
  if (gradient.dr) {
    float* const to = gradient.dr.at(b, t, key_head);
    for (int64_t j = 0; j < keys; ++j) to[j] = (first ? 0.0f : to[j]) + dr[j];
  }
  float dbeta = 0, dw_head = 0;
  const float* const decays = kda ? op.w.at(b, t, h) : nullptr;
  const float decay = kda ? 1.0f : decay_of(op, b, t, h);
  for (int64_t j = 0; j < keys; ++j) {
    dbeta -= decay * k[j] * db[j];  // kda: b has no decay
    dw_head += dw[j] - beta * k[j] * db[j];
  }
  if (gradient.dk) {
    float* const to = gradient.dk.at(b, t, key_head);
    for (int64_t j = 0; j < keys; ++j)
      to[j] = (first ? 0.0f : to[j]) + dk[j] +
              (kda ? decays[j] * da[j] - beta * db[j] : da[j] - decay * beta * db[j]);
  }
  if (gradient.dw && kda) {
    float* const to = gradient.dw.at(b, t, h);
    for (int64_t j = 0; j < keys; ++j) to[j] = dw[j] + k[j] * da[j];
  }
  const float* const v = op.v.at(b, t, h);
  for (int64_t i = 0; i < values; ++i) dbeta += v[i] * dv[i];
  if (gradient.dv) {
    float* const to = gradient.dv.at(b, t, h);
    for (int64_t i = 0; i < values; ++i) to[i] = beta * dv[i];
  }
  if (gradient.dbeta) gradient.dbeta(b, t, h) = present ? dbeta : 0.0f;
  if (gradient.dw && !kda) gradient.dw(b, t, h) = present ? dw_head : 0.0f;
}

void store_narrowed(const LoweredGradient& low, const DeltaRuleGradient<float>& gradient) {
  const std::pair<const Tensor<float>*, View<float>> all[] = {
      {&low.dr, gradient.dr}, {&low.dw, gradient.dw}, {&low.dk, gradient.dk},
      {&low.dv, gradient.dv}, {&low.da, gradient.da}, {&low.db, gradient.db}};
  for (const auto& [from, to] : all)
    if (to) store_narrowed(*from, to);
}

}  // namespace

void raise_gradient(const DeltaRule<float>& op, const LoweredGradient& low,
                    const DeltaRuleGradient<float>& gradient, const Cpu& cpu) {
  if (op.rule == Rule::generalized)
    store_narrowed(low, gradient);
  else
    each_token(op, cpu, [&](int64_t b, int64_t t) {
      for (int64_t h = 0; h < op.v.shape[2]; ++h) raise_head(op, low, gradient, b, t, h);
    });
  if (low.dinitial.elements()) store_narrowed(low.dinitial, gradient.dinitial);
}

}  // namespace deltasane::kernel
