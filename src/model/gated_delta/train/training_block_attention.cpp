// Attention and latent attention: forward and backward.
#include <algorithm>
#include <cmath>

#include "kernel/norm/rms.h"
#include "kernel/rope/rope.h"
#include "model/gated_delta/train/training_block.h"

namespace deltasane::gated_delta {

using kernel::GateActivation;
using kernel::Store;

namespace {

std::vector<int64_t> present_rows(const TrainingPass& p, int64_t sequence) {
  std::vector<int64_t> rows;
  for (int64_t t = 0; t < p.time; ++t)
    if (p.present(sequence, t)) rows.push_back(t);
  return rows;
}

Tensor<float> gathered(const View<float>& from, const std::vector<int64_t>& rows) {
  const int64_t heads = from.shape[1], size = from.shape[2];
  Tensor<float> to({int64_t(rows.size()), heads, size});
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t h = 0; h < heads; ++h)
      std::copy_n(from.at(rows[i], h), size, to.view().at(int64_t(i), h));
  return to;
}

// The other rows become 0, or stay.
void scatter(const Tensor<float>& from, const std::vector<int64_t>& rows, const View<float>& to,
             Store store) {
  const int64_t heads = to.shape[1], size = to.shape[2];
  for (int64_t t = 0; t < to.shape[0] && store == Store::overwrite; ++t)
    for (int64_t h = 0; h < heads; ++h) std::fill_n(to.at(t, h), size, 0.0f);
  for (size_t i = 0; i < rows.size(); ++i)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t n = 0; n < size; ++n)
        to(rows[i], h, n) += from.view()(int64_t(i), h, n);
}

}  // namespace

void TrainingBlock::attend_all(const Heads& all) {
  for (int64_t i = 0; i < p_.sequences; ++i) {
    const View<float> q = of(i, all.q), k = of(i, all.k), v = of(i, all.v), y = of(i, all.y);
    if (!p_.present) {
      kernel::attention({q, k, v, all.scale, c.window, 0, y}, p_.cpu);
      continue;
    }
    const std::vector<int64_t> rows = present_rows(p_, i);
    Tensor<float> some_q = gathered(q, rows), some_k = gathered(k, rows);
    Tensor<float> some_v = gathered(v, rows), some_y = gathered(y, rows);
    if (!rows.empty())
      kernel::attention({some_q.view(), some_k.view(), some_v.view(), all.scale, c.window, 0,
                         some_y.view()},
                        p_.cpu);
    scatter(some_y, rows, y, Store::overwrite);
  }
}

void TrainingBlock::attend_all_backward(const Heads& all, const HeadGradients& d) {
  for (int64_t i = 0; i < p_.sequences; ++i) {
    const View<float> q = of(i, all.q), k = of(i, all.k), v = of(i, all.v);
    const View<float> dy = of(i, d.dy), dq = of(i, d.dq), dk = of(i, d.dk), dv = of(i, d.dv);
    if (!p_.present) {
      kernel::attention_backward({q, k, v, all.scale, c.window, 0, {}}, {dy, dq, dk, dv}, p_.cpu);
      continue;
    }
    const std::vector<int64_t> rows = present_rows(p_, i);
    Tensor<float> some_q = gathered(q, rows), some_k = gathered(k, rows);
    Tensor<float> some_v = gathered(v, rows), some_dy = gathered(dy, rows);
    Tensor<float> some_dq(some_q.shape()), some_dk(some_k.shape()), some_dv(some_v.shape());
    if (!rows.empty())
      kernel::attention_backward(
          {some_q.view(), some_k.view(), some_v.view(), all.scale, c.window, 0, {}},
          {some_dy.view(), some_dq.view(), some_dk.view(), some_dv.view()}, p_.cpu);
    scatter(some_dq, rows, dq, Store::overwrite);
    scatter(some_dk, rows, dk, Store::add), scatter(some_dv, rows, dv, Store::add);
  }
}

void TrainingBlock::project_attention() {
  linear(p_, l_.q, h().view(), (normalizes_queries() ? a.q_raw : a.q).view());
  linear(p_, l_.k, h().view(), (normalizes_queries() ? a.k_raw : a.k).view());
  linear(p_, l_.v, h().view(), a.v.view());
  if (l_.gate) linear(p_, l_.gate, h().view(), gate());
}

void TrainingBlock::project_attention_backward() {
  linear_backward(p_, l_.q, h().view(), s.dq.view(), s.dh.view());
  linear_backward(p_, l_.k, h().view(), s.dk.view(), s.dh.view(), Store::add);
  linear_backward(p_, l_.v, h().view(), s.dv.view(), s.dh.view(), Store::add);
  if (l_.gate) linear_backward(p_, l_.gate, h().view(), dgate(), s.dh.view(), Store::add);
}

void TrainingBlock::normalize_queries_and_keys() {
  if (!normalizes_queries()) return;
  const bool row = c.qk_norm == QkNorm::row;
  rms(l_.q_norm, a.q_raw, row ? a.q.shape()[1] : c.head_size, c.norm_eps, a.q);
  rms(l_.k_norm, a.k_raw, row ? a.k.shape()[1] : c.head_size, c.norm_eps, a.k);
}

void TrainingBlock::normalize_queries_and_keys_backward() {
  if (!normalizes_queries()) return;
  const auto one = [&](Slot norm, Tensor<float>& raw, Tensor<float>& d) {
    const int64_t size = c.qk_norm == QkNorm::row ? raw.shape()[1] : c.head_size;
    kernel::rms_norm_backward({raw.view(), size, p_.w(norm), float(c.norm_eps), d.view(), d.view(),
                               Store::overwrite, p_.dw(norm)},
                              p_.cpu);
  };
  one(l_.q_norm, a.q_raw, s.dq), one(l_.k_norm, a.k_raw, s.dk);
}

void TrainingBlock::rotate() {
  for (int64_t i = 0; i < p_.sequences && c.rotary; ++i)
    for (Tensor<float>* const x : {&a.q, &a.k})
      kernel::rope({by_head(of(i, x->view()), c.head_size), 0, c.rotary, c.theta}, p_.cpu);
}

void TrainingBlock::rotate_backward() {
  for (int64_t i = 0; i < p_.sequences && c.rotary; ++i)
    for (Tensor<float>* const d : {&s.dq, &s.dk})
      kernel::rope_backward({by_head(of(i, d->view()), c.head_size), 0, c.rotary, c.theta}, p_.cpu);
}

TrainingBlock::Heads TrainingBlock::attention_heads() {
  const auto heads = [&](View<float> rows) { return by_head(rows, c.head_size); };
  return {heads(a.q.view()), heads(a.k.view()), heads(a.v.view()),
          heads(l_.gate ? a.attended.view() : mixed()),
          float(1 / std::sqrt(double(c.head_size)))};
}

void TrainingBlock::attend() { attend_all(attention_heads()); }

void TrainingBlock::attend_backward() {
  s.dk.fill(0), s.dv.fill(0);
  const auto heads = [&](View<float> rows) { return by_head(rows, c.head_size); };
  const View<float> dy = l_.gate ? s.dattended.view() : narrow(s.dmixed, s.dq.shape()[1]);
  attend_all_backward(attention_heads(), {heads(dy), heads(s.dq.view()), heads(s.dk.view()),
                                          heads(s.dv.view())});
}

void TrainingBlock::gate_attention() {
  if (l_.gate)
    kernel::multiply_by_gate(GateActivation::sigmoid, gate(), a.attended.view(), mixed(), p_.cpu);
}

void TrainingBlock::gate_attention_backward() {
  if (l_.gate)
    kernel::multiply_by_gate_backward(
        {GateActivation::sigmoid, gate(), a.attended.view(),
         narrow(s.dmixed, gate_columns()), dgate(), s.dattended.view()},
        p_.cpu);
}

// As in inference, keys and values are never made: q is multiplied by the keys' matrix, and what
// attention reads of the cached rows by the values'.
void TrainingBlock::project_latent() {
  linear(p_, l_.q, h().view(), a.latent_q_raw.view());
  linear(p_, l_.kv_down, h().view(), a.cached_raw.view());
  copy_rows(a.cached_raw, a.cached, p_.cpu);
  const View<float> latent = a.cached.view().slice(1, 0, c.latent_size);
  kernel::rms_norm({latent, c.latent_size, p_.w(l_.kv_norm), float(c.latent_norm_eps), latent},
                   p_.cpu);
  const int64_t from = c.latent_key_size + c.shared_key_size;
  const int64_t to = c.latent_size + c.shared_key_size;
  for (int64_t h = 0; h < c.heads; ++h) {
    linear(p_, trained(p_, l_.k_up, h), a.latent_q_raw.view().slice(1, h * from, c.latent_key_size),
           a.latent_q.view().slice(1, h * to, c.latent_size));
    for (int64_t row = 0; row < p_.rows(); ++row)
      std::copy_n(a.latent_q_raw.view().at(row, h * from + c.latent_key_size), c.shared_key_size,
                  a.latent_q.view().at(row, h * to + c.latent_size));
  }
}

void TrainingBlock::project_latent_backward() {
  const int64_t from = c.latent_key_size + c.shared_key_size;
  const int64_t to = c.latent_size + c.shared_key_size;
  for (int64_t h = 0; h < c.heads; ++h) {
    linear_backward(p_, trained(p_, l_.k_up, h),
                    a.latent_q_raw.view().slice(1, h * from, c.latent_key_size),
                    s.dlatent_q.view().slice(1, h * to, c.latent_size),
                    s.dlatent_q_raw.view().slice(1, h * from, c.latent_key_size));
    for (int64_t row = 0; row < p_.rows(); ++row)
      std::copy_n(s.dlatent_q.view().at(row, h * to + c.latent_size), c.shared_key_size,
                  s.dlatent_q_raw.view().at(row, h * from + c.latent_key_size));
  }
  const View<float> dlatent = s.dcached.view().slice(1, 0, c.latent_size);
  kernel::rms_norm_backward({a.cached_raw.view().slice(1, 0, c.latent_size), c.latent_size,
                             p_.w(l_.kv_norm), float(c.latent_norm_eps), dlatent, dlatent,
                             Store::overwrite, p_.dw(l_.kv_norm)},
                            p_.cpu);
  linear_backward(p_, l_.q, h().view(), s.dlatent_q_raw.view(), s.dh.view());
  linear_backward(p_, l_.kv_down, h().view(), s.dcached.view(), s.dh.view(), Store::add);
}

TrainingBlock::Heads TrainingBlock::latent_heads() {
  const int64_t row = a.cached.shape()[1];
  return {by_head(a.latent_q.view(), row), by_head(a.cached.view(), row),
          by_head(a.cached.view().slice(1, 0, c.latent_size), c.latent_size),
          by_head(a.latent_read.view(), c.latent_size),
          float(1 / std::sqrt(double(c.latent_key_size + c.shared_key_size)))};
}

void TrainingBlock::attend_latent() {
  attend_all(latent_heads());
  for (int64_t h = 0; h < c.heads; ++h)
    linear(p_, trained(p_, l_.v_up, h),
           a.latent_read.view().slice(1, h * c.latent_size, c.latent_size),
           mixed().slice(1, h * c.latent_value_size, c.latent_value_size));
}

void TrainingBlock::attend_latent_backward() {
  const View<float> dmixed = narrow(s.dmixed, c.heads * c.latent_value_size);
  for (int64_t h = 0; h < c.heads; ++h)
    linear_backward(p_, trained(p_, l_.v_up, h),
                    a.latent_read.view().slice(1, h * c.latent_size, c.latent_size),
                    dmixed.slice(1, h * c.latent_value_size, c.latent_value_size),
                    s.dlatent_read.view().slice(1, h * c.latent_size, c.latent_size));
  s.dcached.fill(0);
  const int64_t row = s.dcached.shape()[1];
  attend_all_backward(latent_heads(),
                      {by_head(s.dlatent_read.view(), c.latent_size),
                       by_head(s.dlatent_q.view(), row), by_head(s.dcached.view(), row),
                       by_head(s.dcached.view().slice(1, 0, c.latent_size), c.latent_size)});
}

}  // namespace deltasane::gated_delta
