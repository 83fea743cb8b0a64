#include "train/layer_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernel/delta_rule/delta_rule.h"
#include "kernel/rwkv7/gradient.h"
#include "train/processor_time.h"

namespace deltasane::train {

using kernel::Activation;
using kernel::Store;

namespace {

constexpr float layer_norm_eps = 1e-5f, head_norm_eps = 64e-5f;

// Counts what is done while it lives; see PassContext::recurrence_seconds.
class RecurrenceTime {
 public:
  explicit RecurrenceTime(const PassContext& c)
      : sum_(c.recurrence_seconds), began_(sum_ ? processor_seconds_now() : 0) {}
  ~RecurrenceTime() {
    if (sum_) *sum_ += processor_seconds_now() - began_;
  }
  RecurrenceTime(const RecurrenceTime&) = delete;
  RecurrenceTime& operator=(const RecurrenceTime&) = delete;

 private:
  double* sum_;
  double began_;
};

void copy_rows(const Tensor<float>& from, Tensor<float>& to, const kernel::Cpu& cpu) {
  const int64_t n = from.shape()[1];
  cpu.threads.parallel(from.shape()[0], [&](int64_t row) {
    std::copy_n(from.data() + row * n, n, to.data() + row * n);
  });
}

kernel::Weights weights_of(View<const float> matrix) {
  return kernel::Weights::view(kernel::WeightType::f32, matrix.data, matrix.shape[0],
                               matrix.shape[1]);
}

// Padding is a row of zeros to what follows; so is its gradient on the way back.
void leave_out_padding(const PassContext& c, Tensor<float>& rows) {
  if (!c.present) return;
  const int64_t n = rows.shape()[1];
  for (int64_t row = 0; row < c.rows(); ++row)
    if (!c.present.data[row]) std::fill_n(rows.data() + row * n, n, 0.0f);
}

// The mixes of u, sequence by sequence.
void shift(const PassContext& c, const Tensor<float>& u, std::span<const float* const> mu,
           std::span<Tensor<float>* const> mix) {
  const std::vector<float> zero(size_t(c.layout.shape().channels), 0.0f);
  for (int64_t i = 0; i < c.sequences; ++i) {
    std::vector<View<float>> out;
    for (Tensor<float>* one : mix) out.push_back(c.sequence(*one, i));
    kernel::token_shift({c.sequence(u, i), zero.data(), mu, out}, c.cpu);
  }
}

void shift_backward(const PassContext& c, const Tensor<float>& u, std::span<const float* const> mu,
                    std::span<Tensor<float>* const> dmix, std::span<float* const> dmu,
                    Tensor<float>& du) {
  for (int64_t i = 0; i < c.sequences; ++i) {
    std::vector<View<const float>> dout;
    for (Tensor<float>* one : dmix) dout.push_back(c.sequence(*one, i));
    kernel::token_shift_backward({c.sequence(u, i), mu, dout, c.sequence(du, i), dmu}, c.cpu);
  }
}

struct TimeMixNames {
  const PassContext& c;
  std::string att;
  TimeMixNames(const PassContext& context, int64_t layer)
      : c(context), att(cat("blocks.", layer, ".att.")) {}
  std::string operator()(const char* name) const { return att + name; }
  std::array<const float*, 6> mu() const {
    return {c.w(att + "x_r"), c.w(att + "x_w"), c.w(att + "x_k"),
            c.w(att + "x_v"), c.w(att + "x_a"), c.w(att + "x_g")};
  }
  std::array<float*, 6> dmu() const {
    return {c.dw(att + "x_r"), c.dw(att + "x_w"), c.dw(att + "x_k"),
            c.dw(att + "x_v"), c.dw(att + "x_a"), c.dw(att + "x_g")};
  }
};

void mix_all(const PassContext& c, const TimeMixNames& name, const LayerActivations& act,
             BackwardScratch& s) {
  Tensor<float>* const mix[] = {&s.mix_r, &s.mix_w, &s.mix_k, &s.mix_v, &s.mix_a, &s.mix_g};
  shift(c, act.u, name.mu(), mix);
}

// tau of the tokens that end a chunk; the row of chunk j of sequence i is i time + (j + 1) chunk -
// 1
void thresholds(const PassContext& c, const TimeMixNames& name, LayerActivations& act) {
  const int64_t channels = c.layout.shape().channels, chunks = c.chunks();
  if (chunks == 0) return;
  const float* mu = c.w(name("x_tau"));
  for (int64_t n = 0; n < c.sequences * chunks; ++n) {
    const int64_t t = (n % chunks + 1) * c.sane->chunk - 1, row = n / chunks * c.time + t;
    const float* u = act.u.data() + row * channels;
    for (int64_t i = 0; i < channels; ++i) {
      const float before = t > 0 ? u[i - channels] : 0.0f;
      act.x_tau[n * channels + i] = u[i] + (before - u[i]) * mu[i];
    }
  }
  factor(c.without_rounding(), name("w_tau"), act.x_tau.view(), act.z.view());
  for (int64_t i = 0; i < act.z.elements(); ++i) {
    const double z = act.z[i];
    const double softplus = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
    act.tau[i] = float(c.sane->alpha * softplus + 1);
  }
}

void thresholds_backward(const PassContext& c, const TimeMixNames& name,
                         const LayerActivations& act, BackwardScratch& s) {
  const int64_t channels = c.layout.shape().channels, chunks = c.chunks();
  if (chunks == 0) return;
  const float* mu = c.w(name("x_tau"));
  float* dmu = c.dw(name("x_tau"));
  for (int64_t i = 0; i < act.z.elements(); ++i)
    s.dtau[i] *= float(c.sane->alpha / (1 + std::exp(-double(act.z[i]))));
  factor_backward(c.without_rounding(), name("w_tau"), act.x_tau.view(), s.dtau.view(),
                  s.dx_tau.view());
  for (int64_t n = 0; n < c.sequences * chunks; ++n) {
    const int64_t t = (n % chunks + 1) * c.sane->chunk - 1, row = n / chunks * c.time + t;
    const float* u = act.u.data() + row * channels;
    float* du = s.du.data() + row * channels;
    for (int64_t i = 0; i < channels; ++i) {
      const float d = s.dx_tau[n * channels + i], before = t > 0 ? u[i - channels] : 0.0f;
      du[i] += d * (1.0f - mu[i]);
      if (t > 0) du[i - channels] += d * mu[i];
      dmu[i] += d * (before - u[i]);
    }
  }
}

kernel::DeltaRule<float> recurrence(const PassContext& c, LayerActivations& act) {
  const Rwkv7Shape& shape = c.layout.shape();
  const Shape tokens{c.sequences, c.time, shape.heads, shape.head_size};
  kernel::DeltaRule<float> op;
  op.r = {act.r.data(), tokens}, op.w = {act.w.data(), tokens}, op.k = {act.k.data(), tokens};
  op.v = {act.v.data(), tokens}, op.a = {act.a.data(), tokens}, op.b = {act.b.data(), tokens};
  op.y = {act.read.data(), tokens};
  op.present = c.present;
  if (c.sane) op.chunk = c.sane->chunk;
  if (c.chunks()) op.tau = {act.tau.data(), {c.sequences, c.chunks(), shape.heads}};
  return op;
}

void time_mix_forward(const PassContext& c, int64_t layer, LayerActivations& act,
                      Tensor<float>& v_first, BackwardScratch& s) {
  const TimeMixNames name(c, layer);
  mix_all(c, name, act, s);
  linear(c, name("receptance.weight"), s.mix_r.view(), act.r.view());
  linear(c, name("key.weight"), s.mix_k.view(), act.raw_k.view());
  linear(c, name("value.weight"), s.mix_v.view(), act.raw_v.view());
  factor(c, name("w1"), s.mix_w.view(), act.low_w.view());
  kernel::activate(Activation::tanh, act.low_w.view(), c.cpu);
  factor(c, name("w2"), act.low_w.view(), act.raw_w.view());
  factor(c, name("a1"), s.mix_a.view(), act.low_a.view());
  factor(c, name("a2"), act.low_a.view(), act.raw_a.view());
  factor(c, name("g1"), s.mix_g.view(), act.low_g.view());
  kernel::activate(Activation::sigmoid, act.low_g.view(), c.cpu);
  factor(c, name("g2"), act.low_g.view(), act.g.view());
  if (layer == 0) {
    copy_rows(act.raw_v, v_first, c.cpu);
  } else {
    factor(c, name("v1"), s.mix_v.view(), act.low_v.view());
    factor(c, name("v2"), act.low_v.view(), act.gate.view());
  }
  copy_rows(act.raw_w, act.w, c.cpu), copy_rows(act.raw_a, act.a, c.cpu);
  copy_rows(act.raw_k, act.k, c.cpu), copy_rows(act.raw_v, act.v, c.cpu);
  kernel::TimeMixInputs in{c.layout.shape().head_size,
                           act.w.view(),
                           act.a.view(),
                           act.b.view(),
                           act.k.view(),
                           act.v.view(),
                           {},
                           {},
                           c.w(name("w0")),
                           c.w(name("a0")),
                           layer ? c.w(name("v0")) : nullptr,
                           c.w(name("k_k")),
                           c.w(name("k_a"))};
  if (layer) in.gate = act.gate.view(), in.v_first = v_first.view();
  kernel::time_mix_inputs(in, c.cpu);
  {
    const RecurrenceTime counted(c);
    if (c.sane) thresholds(c, name, act);
    kernel::delta_rule(recurrence(c, act), c.cpu);
  }
  copy_rows(act.read, act.y, c.cpu);
  kernel::time_mix_output({c.layout.shape().head_size, act.y.view(), act.r.view(), act.k.view(),
                           act.v.view(), act.g.view(), c.w(name("ln_x.weight")),
                           c.w(name("ln_x.bias")), c.w(name("r_k")), head_norm_eps},
                          c.cpu);
}

// From s.dy, the gradient of act.y, to those of everything the recurrence was given.
void recurrence_backward(const PassContext& c, int64_t layer, LayerActivations& act,
                         const Tensor<float>& v_first, Tensor<float>& dv_first,
                         BackwardScratch& s) {
  const TimeMixNames name(c, layer);
  kernel::time_mix_output_backward(
      {c.layout.shape().head_size, act.read.view(), act.r.view(), act.k.view(), act.v.view(),
       act.g.view(), c.w(name("ln_x.weight")), c.w(name("ln_x.bias")), c.w(name("r_k")),
       head_norm_eps, s.dy.view(), s.dr.view(), s.dk.view(), s.dv.view(), s.dg.view(),
       c.dw(name("ln_x.weight")), c.dw(name("ln_x.bias")), c.dw(name("r_k"))},
      c.cpu);
  const kernel::DeltaRule<float> op = recurrence(c, act);
  const Shape tokens = op.y.shape;
  kernel::DeltaRuleGradient<float> d;
  d.dy = {s.dy.data(), tokens};
  d.dr = {s.sr.data(), tokens}, d.dw = {s.dw.data(), tokens}, d.dk = {s.sk.data(), tokens};
  d.dv = {s.sv.data(), tokens}, d.da = {s.da.data(), tokens}, d.db = {s.db.data(), tokens};
  if (op.tau) d.dtau = {s.dtau.data(), op.tau.shape};
  {
    const RecurrenceTime counted(c);
    kernel::delta_rule_backward(op, d, c.cpu);
  }
  kernel::add_rows(s.sr.view(), s.dr.view(), c.cpu);
  kernel::add_rows(s.sk.view(), s.dk.view(), c.cpu);
  kernel::add_rows(s.sv.view(), s.dv.view(), c.cpu);
  kernel::TimeMixInputsGradient in{c.layout.shape().head_size,
                                   act.raw_w.view(),
                                   act.raw_a.view(),
                                   act.raw_k.view(),
                                   act.raw_v.view(),
                                   {},
                                   {},
                                   c.w(name("w0")),
                                   c.w(name("a0")),
                                   layer ? c.w(name("v0")) : nullptr,
                                   c.w(name("k_k")),
                                   c.w(name("k_a")),
                                   s.dw.view(),
                                   s.da.view(),
                                   s.dk.view(),
                                   s.dv.view(),
                                   s.db.view(),
                                   {},
                                   {},
                                   c.dw(name("w0")),
                                   c.dw(name("a0")),
                                   layer ? c.dw(name("v0")) : nullptr,
                                   c.dw(name("k_k")),
                                   c.dw(name("k_a"))};
  if (layer) {
    in.gate = act.gate.view(), in.v_first = v_first.view();
    in.dgate = s.dgate.view(), in.dv_first = dv_first.view();
  }
  kernel::time_mix_inputs_backward(in, c.cpu);
  if (layer == 0) kernel::add_rows(dv_first.view(), s.dv.view(), c.cpu);
}

// From the gradient of the time mix's result to that of u, in s.du. A mix's place takes its
// gradient as soon as the mix is not needed any more.
void time_mix_backward(const PassContext& c, int64_t layer, LayerActivations& act,
                       const Tensor<float>& v_first, Tensor<float>& dv_first, BackwardScratch& s,
                       const Tensor<float>& dresult) {
  const TimeMixNames name(c, layer);
  linear_backward(c, name("output.weight"), act.y.view(), dresult.view(), s.dy.view());
  recurrence_backward(c, layer, act, v_first, dv_first, s);
  mix_all(c, name, act, s);
  const auto low_rank = [&](const char* down, const char* up, const Tensor<float>& low,
                            const Tensor<float>& dup, Tensor<float>& mix, Tensor<float>& dmix,
                            std::optional<Activation> between, Store store) {
    const View<float> dlow = s.low(low.shape()[1]);
    factor_backward(c, name(up), low.view(), dup.view(), dlow);
    if (between) kernel::activate_backward(*between, low.view(), dlow, c.cpu);
    factor_backward(c, name(down), mix.view(), dlow, dmix.view(), store);
  };
  // sr, sk, sv, du, dy, db are free by now
  linear_backward(c, name("receptance.weight"), s.mix_r.view(), s.dr.view(), s.sr.view());
  linear_backward(c, name("key.weight"), s.mix_k.view(), s.dk.view(), s.sk.view());
  linear_backward(c, name("value.weight"), s.mix_v.view(), s.dv.view(), s.sv.view());
  if (layer) low_rank("v1", "v2", act.low_v, s.dgate, s.mix_v, s.sv, std::nullopt, Store::add);
  low_rank("w1", "w2", act.low_w, s.dw, s.mix_w, s.dy, Activation::tanh, Store::overwrite);
  low_rank("a1", "a2", act.low_a, s.da, s.mix_a, s.db, std::nullopt, Store::overwrite);
  low_rank("g1", "g2", act.low_g, s.dg, s.mix_g, s.dr, Activation::sigmoid, Store::overwrite);
  Tensor<float>* const dmix[] = {&s.sr, &s.dy, &s.sk, &s.sv, &s.db, &s.dr};
  shift_backward(c, act.u, name.mu(), dmix, name.dmu(), s.du);
  if (c.sane) {
    const RecurrenceTime counted(c);
    thresholds_backward(c, name, act, s);
  }
  leave_out_padding(c, s.du);
}

}  // namespace

void linear(const PassContext& c, const std::string& name, View<const float> x, View<float> y,
            Store store) {
  kernel::matmul(weights_of(c.matrix(name)), c.taken(x, Rounding::first), y, c.cpu, store);
}

void linear_backward(const PassContext& c, const std::string& name, View<const float> x,
                     View<const float> dy, View<float> dx) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(dy_taken, c.taken(x, Rounding::first), c.dmatrix(name), c.cpu, Store::add);
  kernel::matmul_nn(dy_taken, c.matrix(name), dx, c.cpu);
}

void factor(const PassContext& c, const std::string& name, View<const float> x, View<float> y) {
  kernel::matmul_nn(c.taken(x, Rounding::first), c.matrix(name), y, c.cpu);
}

void factor_backward(const PassContext& c, const std::string& name, View<const float> x,
                     View<const float> dy, View<float> dx, Store store) {
  const View<const float> dy_taken = c.taken(dy, Rounding::second);
  kernel::matmul_tn(c.taken(x, Rounding::first), dy_taken, c.dmatrix(name), c.cpu, Store::add);
  kernel::matmul(weights_of(c.matrix(name)), dy_taken, dx, c.cpu, store);
}

void layer_forward(const PassContext& c, int64_t layer, LayerActivations& act,
                   Tensor<float>& v_first, BackwardScratch& s, Tensor<float>& x_out) {
  const std::string block = cat("blocks.", layer, ".");
  kernel::layer_norm(act.x.view(), c.w(block + "ln1.weight"), c.w(block + "ln1.bias"),
                     layer_norm_eps, act.u.view(), c.cpu);
  leave_out_padding(c, act.u);
  time_mix_forward(c, layer, act, v_first, s);
  copy_rows(act.x, act.x_ffn, c.cpu);
  linear(c, block + "att.output.weight", act.y.view(), act.x_ffn.view(), Store::add);
  kernel::layer_norm(act.x_ffn.view(), c.w(block + "ln2.weight"), c.w(block + "ln2.bias"),
                     layer_norm_eps, act.u_ffn.view(), c.cpu);
  leave_out_padding(c, act.u_ffn);
  const float* const mu[] = {c.w(block + "ffn.x_k")};
  Tensor<float>* const mix[] = {&s.mix_k};
  shift(c, act.u_ffn, mu, mix);
  linear(c, block + "ffn.key.weight", s.mix_k.view(), act.hidden.view());
  kernel::activate(Activation::squared_relu, act.hidden.view(), c.cpu);
  copy_rows(act.x_ffn, x_out, c.cpu);
  linear(c, block + "ffn.value.weight", act.hidden.view(), x_out.view(), Store::add);
}

void layer_backward(const PassContext& c, int64_t layer, LayerActivations& act,
                    const Tensor<float>& v_first, Tensor<float>& dv_first, BackwardScratch& s,
                    Tensor<float>& dx) {
  const std::string block = cat("blocks.", layer, ".");
  const float* const mu[] = {c.w(block + "ffn.x_k")};
  float* const dmu[] = {c.dw(block + "ffn.x_k")};
  Tensor<float>* const mix[] = {&s.mix_k};
  Tensor<float>* const dmix[] = {&s.dy};
  linear_backward(c, block + "ffn.value.weight", act.hidden.view(), dx.view(), s.dhidden.view());
  kernel::activate_backward(Activation::squared_relu, act.hidden.view(), s.dhidden.view(), c.cpu);
  shift(c, act.u_ffn, mu, mix);
  linear_backward(c, block + "ffn.key.weight", s.mix_k.view(), s.dhidden.view(), s.dy.view());
  shift_backward(c, act.u_ffn, mu, dmix, dmu, s.du);
  leave_out_padding(c, s.du);
  kernel::layer_norm_backward(
      {act.x_ffn.view(), c.w(block + "ln2.weight"), layer_norm_eps, s.du.view(), dx.view(),
       c.dw(block + "ln2.weight"), c.dw(block + "ln2.bias")},
      c.cpu);

  time_mix_backward(c, layer, act, v_first, dv_first, s, dx);
  kernel::layer_norm_backward({act.x.view(), c.w(block + "ln1.weight"), layer_norm_eps, s.du.view(),
                               dx.view(), c.dw(block + "ln1.weight"), c.dw(block + "ln1.bias")},
                              c.cpu);
}

}  // namespace deltasane::train
