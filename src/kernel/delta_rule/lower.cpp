#include "kernel/delta_rule/lower.h"

#include <algorithm>

namespace deltasane::kernel {
namespace {

template <class Body>
void each_head(const DeltaRule<float>& op, Body body) {
  for (int64_t b = 0; b < op.k.shape[0]; ++b)
    for (int64_t t = 0; t < op.k.shape[1]; ++t)
      for (int64_t h = 0; h < op.k.shape[2]; ++h) body(b, t, h);
}

float decay_of(const DeltaRule<float>& op, int64_t b, int64_t t, int64_t h, int64_t j) {
  if (op.rule == Rule::deltanet) return 1.0f;
  return op.rule == Rule::kda ? op.w(b, t, h, j) : op.w(b, t, h);
}

// Rows of `keys` numbers with zeros up to `wanted`.
Tensor<float> widened(const View<const float>& from, int64_t wanted) {
  const Shape& shape = from.shape;
  Tensor<float> to({shape[0], shape[1], shape[2], wanted});
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      for (int64_t h = 0; h < shape[2]; ++h)
        std::copy_n(from.at(i, j, h), shape[3], to.view().at(i, j, h));
  return to;
}

}  // namespace

Lowered lower(const DeltaRule<float>& op, int64_t keys, const Cpu& cpu) {
  const int64_t batch = op.v.shape[0], time = op.v.shape[1], heads = op.v.shape[2];
  const int64_t values = op.v.shape[3], own_keys = op.k.shape[3];
  const int64_t heads_per_key_head = heads / op.k.shape[2];
  const Shape vectors{batch, time, heads, keys};
  Lowered low{Tensor<float>(vectors), Tensor<float>(vectors), Tensor<float>(vectors),
              Tensor<float>(op.v.shape), {}, {}, {}, op};
  const View<float> w = low.w.view(), a = low.a.view(), b_ = low.b.view(), v = low.v.view();
  const bool kda = op.rule == Rule::kda;
  const auto lower_token = [&](int64_t row) {
    const int64_t b = row / time, t = row % time;
    for (int64_t h = 0; h < heads; ++h) {
      const float beta = op.beta(b, t, h);
      const float* const k = op.k.at(b, t, h / heads_per_key_head);
      float *const to_w = w.at(b, t, h), *const to_a = a.at(b, t, h), *const to_b = b_.at(b, t, h);
      if (kda) {
        const float* const decay = op.w.at(b, t, h);
        for (int64_t j = 0; j < own_keys; ++j)
          to_w[j] = decay[j], to_a[j] = decay[j] * k[j], to_b[j] = -beta * k[j];
      } else {
        const float decay = decay_of(op, b, t, h, 0);
        for (int64_t j = 0; j < own_keys; ++j)
          to_w[j] = decay, to_a[j] = k[j], to_b[j] = -decay * beta * k[j];
      }
      for (int64_t j = own_keys; j < keys; ++j) to_w[j] = 1;
      const float* const from_v = op.v.at(b, t, h);
      float* const to_v = v.at(b, t, h);
      for (int64_t i = 0; i < values; ++i) to_v[i] = beta * from_v[i];
    }
  };
  constexpr int64_t together = 16;
  cpu.threads.parallel((batch * time + together - 1) / together, [&](int64_t piece) {
    const int64_t end = std::min(batch * time, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row) lower_token(row);
  });
  low.op.rule = Rule::generalized;
  low.op.w = low.w.view();
  low.op.a = low.a.view();
  low.op.b = low.b.view();
  low.op.v = low.v.view();
  low.op.beta = {};
  if (keys == own_keys) return low;
  low.r = widened(op.r, keys), low.k = widened(op.k, keys);
  low.op.r = low.r.view(), low.op.k = low.k.view();
  low.state = op.initial ? widened(op.initial, keys) : Tensor<float>({batch, heads, values, keys});
  low.op.initial = low.state.view();
  low.op.final_state = low.state.view();
  return low;
}

void store_final_state(const Lowered& low, const DeltaRule<float>& op) {
  if (low.state.elements() == 0 || !op.final_state) return;
  const Shape& shape = op.final_state.shape;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        std::copy_n(low.state.view().at(b, h, i), shape[3], op.final_state.at(b, h, i));
}

LoweredGradient lower_gradient(const DeltaRule<float>& op,
                               const DeltaRuleGradient<float>& gradient) {
  LoweredGradient low{Tensor<float>(op.k.shape), Tensor<float>(op.k.shape),
                      Tensor<float>(op.v.shape), Tensor<float>(op.k.shape),
                      Tensor<float>(op.k.shape), gradient};
  low.gradient.dw = low.dw.view();
  low.gradient.dk = low.dk.view();
  low.gradient.dv = low.dv.view();
  low.gradient.da = low.da.view();
  low.gradient.db = low.db.view();
  low.gradient.dbeta = {};
  return low;
}

void raise_gradient(const DeltaRule<float>& op, const LoweredGradient& low,
                    const DeltaRuleGradient<float>& gradient) {
  const bool kda = op.rule == Rule::kda;
  each_head(op, [&](int64_t b, int64_t t, int64_t h) {
    const bool present = !op.present || op.present(b, t) != 0;
    const float beta = op.beta(b, t, h);
    float dbeta = 0, dw_head = 0;
    for (int64_t j = 0; j < op.k.shape[3]; ++j) {
      const float k = op.k(b, t, h, j), w = decay_of(op, b, t, h, j);
      const float dw = low.dw.view()(b, t, h, j), da = low.da.view()(b, t, h, j);
      const float db = low.db.view()(b, t, h, j), dk = low.dk.view()(b, t, h, j);
      dbeta -= (kda ? 1.0f : w) * k * db;
      dw_head += dw - beta * k * db;
      if (gradient.dk)
        gradient.dk(b, t, h, j) = dk + (kda ? w * da - beta * db : da - w * beta * db);
      if (gradient.dw && kda) gradient.dw(b, t, h, j) = dw + k * da;
    }
    for (int64_t i = 0; i < op.v.shape[3]; ++i) {
      const float dv = low.dv.view()(b, t, h, i);
      dbeta += op.v(b, t, h, i) * dv;
      if (gradient.dv) gradient.dv(b, t, h, i) = beta * dv;
    }
    if (gradient.dbeta) gradient.dbeta(b, t, h) = present ? dbeta : 0.0f;
    if (gradient.dw && !kda) gradient.dw(b, t, h) = present ? dw_head : 0.0f;
  });
}

}  // namespace deltasane::kernel
