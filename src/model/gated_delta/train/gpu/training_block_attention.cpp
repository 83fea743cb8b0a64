#include "kernel/activation/gated_cuda.h"
#include "kernel/norm/rms_cuda.h"
#include "kernel/rope/cuda.h"
#include "model/gated_delta/train/gpu/training_block.h"

namespace deltasane::gated_delta::gpu {

using kernel::GateActivation;
using kernel::Store;

template <class Real>
void GpuTrainingBlock<Real>::project_attention() {
  linear<Real>(p_, l_.q, a.h, a.query_raw);
  linear<Real>(p_, l_.k, a.h, a.key_raw);
  linear<Real>(p_, l_.v, a.h, a.value);
  if (l_.gate) linear<Real>(p_, l_.gate, a.h, a.gate);
}

template <class Real>
void GpuTrainingBlock<Real>::project_attention_backward() {
  linear_backward<Real>(p_, l_.q, a.h, s.dquery, dh(), onto_dh());
  linear_backward<Real>(p_, l_.k, a.h, s.dkey, dh(), Store::add);
  linear_backward<Real>(p_, l_.v, a.h, s.dvalue, dh(), Store::add);
  if (l_.gate) linear_backward<Real>(p_, l_.gate, a.h, s.dgate, dh(), Store::add);
}

template <class Real>
void GpuTrainingBlock<Real>::normalize_queries_and_keys() {
  if (c.qk_norm == QkNorm::none) return;
  p_.row_operation();
  const auto one = [&](Slot weight, int64_t heads, const Real* raw, Real* to) {
    const QkNormSize n(c, heads);
    kernel::cuda::RmsNorm<Real, Real> op;
    op.rows = p_.size.rows(), op.heads = n.heads, op.size = n.size;
    op.x = raw, op.y = to, op.x_step = op.y_step = heads * c.head_size;
    op.weight = p_.w(weight), op.eps = float(c.norm_eps);
    kernel::cuda::rms_norm(op, p_.gpu);
  };
  one(l_.q_norm, c.heads, a.query_raw, a.query);
  one(l_.k_norm, c.kv_heads, a.key_raw, a.key);
}

template <class Real>
void GpuTrainingBlock<Real>::normalize_queries_and_keys_backward() {
  if (c.qk_norm == QkNorm::none) return;
  p_.row_operation();
  const auto one = [&](Slot weight, int64_t heads, const Real* raw, Real* d) {
    const QkNormSize n(c, heads);
    kernel::cuda::RmsNormGradient<Real, Real> op;
    op.rows = p_.size.rows(), op.heads = n.heads, op.size = n.size, op.x = raw;
    op.weight = p_.w(weight), op.eps = float(c.norm_eps), op.dy = op.dx = d;
    op.dweight = p_.dw(weight), op.scratch = s.sums;
    kernel::cuda::rms_norm_backward(op, p_.gpu);
  };
  one(l_.q_norm, c.heads, a.query_raw, s.dquery);
  one(l_.k_norm, c.kv_heads, a.key_raw, s.dkey);
}

template <class Real>
void GpuTrainingBlock<Real>::turn(const double* frequencies, Real* queries, Real* keys) {
  p_.row_operation();
  const auto one = [&](int64_t heads, Real* x) {
    kernel::cuda::rope(kernel::cuda::Rope<Real>{p_.ragged, heads, c.head_size, heads * c.head_size,
                                                c.rotary, frequencies, x},
                       p_.gpu);
  };
  one(c.heads, queries), one(c.kv_heads, keys);
}

template <class Real>
kernel::cuda::WholeAttention<Real> GpuTrainingBlock<Real>::attention() const {
  kernel::cuda::WholeAttention<Real> op = attention_of<Real>(c, p_.size);
  op.q = a.query, op.k = a.key, op.v = a.value, op.present = p_.present;
  op.y = a.attended, op.scratch = s.attention;
  return op;
}

template <class Real>
void GpuTrainingBlock<Real>::attend() {
  p_.clock.begin(Work::products, p_.gpu);
  kernel::cuda::whole_attention(attention(), p_.products, p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::attend_backward() {
  p_.clock.begin(Work::products, p_.gpu);
  kernel::cuda::whole_attention_backward<Real>(
      attention(), {l_.gate ? s.dattended : s.dmixed, s.dquery, s.dkey, s.dvalue}, p_.products,
      p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::gate_attention() {
  if (!l_.gate) return;
  p_.row_operation();
  const int64_t queries = c.heads * c.head_size;
  kernel::cuda::multiply_by_gate(
      kernel::cuda::GatedRows<Real>{GateActivation::sigmoid, p_.size.rows(), queries, a.gate,
                                    queries, a.attended, a.mixed},
      p_.gpu);
}

template <class Real>
void GpuTrainingBlock<Real>::gate_attention_backward() {
  if (!l_.gate) return;
  p_.row_operation();
  kernel::cuda::multiply_by_gate_backward(
      kernel::cuda::GatedRowsGradient<Real>{GateActivation::sigmoid,
                                            p_.size.rows() * c.heads * c.head_size, a.gate,
                                            a.attended, s.dmixed, s.dgate, s.dattended},
      p_.gpu);
}

template class GpuTrainingBlock<float>;
template class GpuTrainingBlock<bf16>;

}  // namespace deltasane::gated_delta::gpu
