#include "kernel/delta_rule/lower.h"

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

}  // namespace

Lowered lower(const DeltaRule<float>& op) {
  Lowered low{Tensor<float>(op.k.shape), Tensor<float>(op.k.shape), Tensor<float>(op.k.shape),
              Tensor<float>(op.v.shape), op};
  const View<float> w = low.w.view(), a = low.a.view(), b_ = low.b.view(), v = low.v.view();
  each_head(op, [&](int64_t b, int64_t t, int64_t h) {
    const float beta = op.beta(b, t, h);
    for (int64_t j = 0; j < op.k.shape[3]; ++j) {
      const float k = op.k(b, t, h, j), decay = decay_of(op, b, t, h, j);
      const bool kda = op.rule == Rule::kda;
      w(b, t, h, j) = decay;
      a(b, t, h, j) = kda ? decay * k : k;
      b_(b, t, h, j) = kda ? -beta * k : -decay * beta * k;
    }
    for (int64_t i = 0; i < op.v.shape[3]; ++i) v(b, t, h, i) = beta * op.v(b, t, h, i);
  });
  low.op.rule = Rule::generalized;
  low.op.w = low.w.view();
  low.op.a = low.a.view();
  low.op.b = low.b.view();
  low.op.v = low.v.view();
  low.op.beta = {};
  return low;
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
