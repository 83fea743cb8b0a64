// The steps of block.h on a block of rows in a GPU's stream. For executor.cpp only.
#pragma once

#include "kernel/activation/gated_cuda.h"
#include "kernel/attention/cuda_inputs.h"
#include "kernel/decay/cuda.h"
#include "kernel/delta_rule/gated_cuda/gated_rule.h"
#include "kernel/delta_rule/token_cuda/token_rule.h"
#include "kernel/norm/rms_cuda.h"
#include "kernel/rounded/cuda.h"
#include "kernel/sane/cuda.h"
#include "kernel/sane/tau.h"
#include "kernel/short_conv/cuda.h"
#include "model/gated_delta/block.h"
#include "model/gated_delta/gpu/executor.h"
#include "model/gated_delta/heads.h"

namespace deltasane::gated_delta {

inline kernel::GateActivation activation_of(OutputGate gate) {
  return gate == OutputGate::silu ? kernel::GateActivation::silu : kernel::GateActivation::sigmoid;
}

template <class Real>
class GpuExecutor<Real>::Block {
 public:
  Block(GpuExecutor& executor, int64_t index)
      : e(executor),
        c(executor.c),
        w(executor.weights_.layers[size_t(index)]),
        gpu_(*executor.gpu_),
        index_(index),
        rows_(executor.rows_.rows) {}

  Mixer mixer() const { return w.mixer; }
  bool has_experts() const { return w.has_experts; }
  void norm_before_mixer() { norm_before(w.mixer_norm); }
  void norm_before_ffn() { norm_before(w.ffn_norm); }
  void project_recurrent();
  void tau();
  void convolve();
  void decay_and_beta();
  void recurrence();
  void gated_output_norm();
  void project_attention() { e.multiply(h(), w.in, e.in, rows_, in_step(), c.channels); }
  void normalize_queries_and_keys();
  void rotate() {}  // in append_to_cache()
  void append_to_cache();
  void attend();
  void gate_attention();
  void project_latent();
  void append_latent();
  void attend_latent();
  void add_mixer_output() {
    const int64_t inner = w.mixer == Mixer::recurrent   ? c.value_channels()
                          : w.mixer == Mixer::attention ? c.heads * c.head_size
                                                        : c.heads * c.latent_value_size;
    add_product(e.y, w.output, inner, w.mixer_norm);
  }
  void add_experts();
  void add_network();

 private:
  const Real* h() const {  // the input of a half
    if constexpr (std::is_same_v<Real, float>)
      if (w.norms_after) return e.x;
    return e.h;
  }
  void norm_before(const float* weight);
  void add_product(const Real* from, const Real* matrix, int64_t inner, const float* norm);
  int64_t in_step() const {
    return w.mixer == Mixer::recurrent   ? e.weights_.recurrent_columns()
           : w.mixer == Mixer::attention ? e.weights_.attention_columns()
                                         : e.weights_.latent_columns();
  }
  // silu(gate h) * up h, where it is returned; the rows of both are one batched product.
  Real* gated_hidden(const Real* gate_and_up, int64_t width);
  void experts_of_many_rows();
  // The rows of each head times a matrix of its own, (head, out, in).
  void multiply_heads(const Real* rows, const Real* matrices, Real* to, int64_t out, int64_t in);
  int64_t z_columns() const {
    return (w.beta ? c.value_heads : 0) + (w.decay ? c.decays() : 0);
  }
  kernel::cuda::KeyValueCaches<Real> caches() const {
    const Places there = e.placed(e.places_.data());
    return {there.caches, there.capacity, w.cache, e.storage_.fixed, e.storage_.ring};
  }
  bool has_fast_rule() const;
  void fast_rule();

  GpuExecutor& e;
  const Config& c;
  const GpuLayerWeights<Real>& w;
  const Gpu& gpu_;
  int64_t index_, rows_;
  const float* tau_ = nullptr;  // (rows, head); null: no SANE
};

template <class Real>
void GpuExecutor<Real>::Block::norm_before(const float* weight) {
  if (w.norms_after) {
    if constexpr (std::is_same_v<Real, bf16>)
      kernel::cuda::rounded(e.x, e.h, rows_ * c.channels, gpu_);
    return;
  }
  kernel::cuda::RmsNorm<float, Real> op;
  op.rows = rows_, op.size = c.channels, op.x = e.x, op.x_step = op.y_step = c.channels;
  op.weight = weight, op.eps = float(c.norm_eps), op.y = e.h;
  kernel::cuda::rms_norm(op, gpu_);
}

// x += W y, with a norm where it comes after.
template <class Real>
void GpuExecutor<Real>::Block::add_product(const Real* from, const Real* matrix, int64_t inner,
                                           const float* norm) {
  if (!w.norms_after) return e.multiply(from, matrix, e.x, rows_, c.channels, inner, true);
  e.multiply(from, matrix, e.h, rows_, c.channels, inner);
  kernel::cuda::RmsNorm<Real, float> op;
  op.rows = rows_, op.size = c.channels, op.x = e.h, op.x_step = op.y_step = c.channels;
  op.weight = norm, op.eps = float(c.norm_eps), op.y = e.x, op.add = true;
  kernel::cuda::rms_norm(op, gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::project_recurrent() {
  e.multiply(h(), w.in, e.in, rows_, in_step(), c.channels);
  // Those of beta and of a head's decay, which lies below it, at once.
  if (z_columns() > 0) e.multiply(h(), w.beta ? w.beta : w.decay, e.z, rows_, z_columns(), c.channels);
  if (w.decay_down) {
    e.multiply(h(), w.decay_down, e.low, rows_, c.decay_rank, c.channels);
    e.multiply(e.low, w.decay_up, e.z_decay, rows_, c.decays(), c.decay_rank);
  }
  if (w.gate_down) {
    e.multiply(h(), w.gate_down, e.low, rows_, c.gate_rank, c.channels);
    e.multiply(e.low, w.gate_up, e.gate, rows_, c.value_channels(), c.gate_rank);
  }
}

// Of every row, although only the ends of chunks have a use for it.
template <class Real>
void GpuExecutor<Real>::Block::tau() {
  if (e.sane_.kind == SaneKind::none) return;
  const int64_t heads = c.value_heads;
  const float* z = nullptr;
  if (e.sane_.kind == SaneKind::trained) {
    e.multiply(h(), w.w_tau, e.z_tau, rows_, heads, c.channels);
    z = e.z_tau;
  }
  if (e.has_alphas_) {
    const StateLayout& layout = e.inputs_[0].state->layout();
    const auto all = int64_t(layout.heads().size());
    int64_t row = 0;
    for (size_t i = 0; i < e.inputs_.size(); ++i) {
      const auto count = int64_t(e.inputs_[i].tokens.size());
      kernel::cuda::tau_forward_per_head(
          z ? z + row * heads : nullptr, count, heads,
          e.alphas_.data() + int64_t(i) * all + layout.heads_of(index_).first,
          e.tau + row * heads, gpu_);
      row += count;
    }
  } else if (z) {
    kernel::cuda::tau_forward(z, rows_ * heads, e.sane_.alpha, e.tau, gpu_);
  }
  tau_ = e.tau;
  int64_t row = 0;
  for (const GpuInput& one : e.inputs_) {
    if (const int64_t chunks = e.chunks_of(one); one.taus && chunks > 0) {
      const int64_t first = row + e.sane_.chunk - 1 - one.state->position % e.sane_.chunk;
      const uint64_t bytes = uint64_t(heads) * sizeof(float);
      const int64_t at = e.recorded_.empty() ? 0 : e.recorded_.back().end();
      copy_rows_on_gpu({e.taus_.data() + at, bytes},
                       {e.tau + first * heads, uint64_t(e.sane_.chunk) * bytes}, bytes, chunks,
                       gpu_);
      e.recorded_.push_back({one.taus, index_, at, chunks * heads});
    }
    row += int64_t(one.tokens.size());
  }
}

template <class Real>
void GpuExecutor<Real>::Block::convolve() {
  kernel::cuda::ShortConv<Real> op;
  op.rows = e.rows_, op.channels = c.mixed_channels(), op.step = in_step();
  op.taps = std::max<int64_t>(1, c.taps), op.x = e.in, op.weight = w.convolution;
  op.state_at = w.inputs_at;
  op.parts[0] = {e.r, c.key_channels()}, op.parts[1] = {e.k, c.key_channels()};
  op.parts[2] = {e.v, c.value_channels()};
  kernel::cuda::short_conv(op, gpu_);
  kernel::cuda::L2Norms<Real> norms{rows_, c.key_heads, c.key_size, l2_eps, {e.r, e.k}, {e.r, e.k}, {}};
  norms.scale[0] = float(1 / std::sqrt(double(c.key_size))), norms.scale[1] = 1;
  kernel::cuda::l2_norms(norms, gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::decay_and_beta() {
  kernel::cuda::DecayAndBeta op;
  op.rows = rows_, op.heads = c.value_heads;
  if (c.decays()) {
    op.size = c.decays() / c.value_heads, op.g = e.g;
    op.z = w.decay ? e.z + (w.beta ? c.value_heads : 0) : e.z_decay;
    op.z_step = w.decay ? z_columns() : c.decays();
    op.rate = w.decay_rate, op.bias = w.decay_bias, op.bound = float(c.decay_bound);
  }
  if (w.beta) op.z_beta = e.z, op.beta_step = z_columns();
  op.beta_scale = float(c.beta_scale), op.beta = e.beta;
  kernel::cuda::decay_and_beta(op, gpu_);
}

// Whether gated_rule takes the block.
template <class Real>
bool GpuExecutor<Real>::Block::has_fast_rule() const {
  constexpr int64_t few = 8;  // tokens of a sequence that are faster one by one
  return std::is_same_v<Real, bf16> && e.rows_.longest > few &&
         (c.key_size == 64 || c.key_size == 96 || c.key_size == 128 || c.key_size == 256) &&
         c.value_size % 16 == 0 && (!tau_ || e.sane_.chunk == 16);
}

template <class Real>
void GpuExecutor<Real>::Block::fast_rule() {
  if constexpr (std::is_same_v<Real, bf16>) {
    const Places here = e.placed(e.places_here_.template as<std::byte>());
    const int64_t heads = c.value_heads;
    for (size_t i = 0; i < e.inputs_.size(); ++i) {
      const int64_t row = here.first[i];
      kernel::cuda::GatedRule op;
      op.rule = c.rule, op.batch = 1, op.time = here.length[i], op.position = here.position[i];
      op.key_heads = c.key_heads, op.heads = heads, op.keys = c.key_size, op.values = c.value_size;
      op.r = e.r + row * c.key_channels(), op.k = e.k + row * c.key_channels();
      op.v = e.v + row * c.value_channels(), op.y = e.y + row * c.value_channels();
      if (c.decays()) op.g = e.g + row * c.decays();
      op.beta = e.beta + row * heads;
      op.final_state = here.states[i] + w.memory_at, op.initial = op.final_state;
      const int64_t chunks = kernel::chunks_ending(op.position, op.time, 16);
      if (tau_ && chunks > 0) {
        const uint64_t bytes = uint64_t(heads) * sizeof(float);
        const int64_t end = row + 15 - op.position % 16;
        copy_rows_on_gpu({e.chunk_tau, bytes},
                         {const_cast<float*>(tau_) + end * heads, 16 * bytes}, bytes, chunks, gpu_);
        op.tau = e.chunk_tau;
      }
      kernel::cuda::gated_rule(op, e.rule_scratch_, gpu_);
    }
  }
}

template <class Real>
void GpuExecutor<Real>::Block::recurrence() {
  if (has_fast_rule()) return fast_rule();
  kernel::cuda::TokenRule<Real> op;
  op.rule = c.rule, op.rows = e.rows_, op.key_heads = c.key_heads, op.heads = c.value_heads;
  op.keys = c.key_size, op.values = c.value_size;
  op.r = e.r, op.k = e.k, op.v = e.v, op.beta = e.beta, op.y = e.y;
  if (c.decays()) op.g = e.g;
  op.tau = tau_, op.state_at = w.memory_at;
  if (tau_) op.chunk = e.sane_.chunk;
  kernel::cuda::token_rule(op, gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::gated_output_norm() {
  kernel::cuda::RmsNorm<Real, Real> op;
  op.rows = rows_, op.heads = c.value_heads, op.size = c.value_size;
  op.x = op.y = e.y, op.x_step = op.y_step = c.value_channels();
  op.weight = w.output_norm, op.eps = float(c.output_norm_eps);
  if (c.gate != OutputGate::none) {
    const bool own = w.gate_down != nullptr;
    op.gate = own ? e.gate : e.in + c.mixed_channels();
    op.gate_step = own ? c.value_channels() : in_step();
    op.gate_bias = w.gate_bias;
    op.activation = activation_of(c.gate);
  }
  kernel::cuda::rms_norm(op, gpu_);
}

// Norms of whole rows; those of heads are in append_to_cache().
template <class Real>
void GpuExecutor<Real>::Block::normalize_queries_and_keys() {
  if (c.qk_norm != QkNorm::row) return;
  const auto norm = [&](int64_t from, int64_t heads, const float* weight) {
    kernel::cuda::RmsNorm<Real, Real> op;
    op.rows = rows_, op.heads = 1, op.size = heads * c.head_size;
    op.x = op.y = e.in + from, op.x_step = op.y_step = in_step();
    op.weight = weight, op.eps = float(c.norm_eps);
    kernel::cuda::rms_norm(op, gpu_);
  };
  norm(0, c.heads, w.q_norm);
  norm(c.heads * c.head_size, c.kv_heads, w.k_norm);
}

// With norms of heads and rotary positions.
template <class Real>
void GpuExecutor<Real>::Block::append_to_cache() {
  kernel::cuda::AttentionInputs<Real> op;
  op.rows = e.rows_, op.cache = caches();
  op.heads = c.heads, op.kv_heads = c.kv_heads, op.size = c.head_size;
  op.x = e.in, op.step = in_step(), op.eps = float(c.norm_eps);
  if (c.qk_norm == QkNorm::head) op.q_norm = w.q_norm, op.k_norm = w.k_norm;
  op.rotary = c.rotary, op.frequencies = e.weights_.frequencies;
  kernel::cuda::attention_inputs(op, gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::attend() {
  kernel::cuda::Attention<Real> op;
  op.rows = e.rows_, op.cache = caches();
  op.heads = c.heads, op.kv_heads = c.kv_heads, op.size = c.head_size;
  op.q = e.in, op.q_step = in_step();
  op.scale = float(1 / std::sqrt(double(c.head_size)));
  op.window = c.window, op.kept = c.kept, op.y = e.y;
  kernel::cuda::attention(op, e.attention_scratch_, gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::gate_attention() {
  if (!c.attention_gate) return;
  const int64_t channels = c.heads * c.head_size;
  kernel::cuda::multiply_by_gate(
      kernel::cuda::GatedRows<Real>{kernel::GateActivation::sigmoid, rows_, channels,
                                    e.in + channels + 2 * c.kv_heads * c.head_size, in_step(), e.y, e.y},
      gpu_);
}

template <class Real>
Real* GpuExecutor<Real>::Block::gated_hidden(const Real* gate_and_up, int64_t width) {
  using kernel::cuda::Products;
  const int64_t numbers = rows_ * width;
  Products::Product<Real, Real> both{Products::Form::nt, rows_, width, c.channels, h(), gate_and_up,
                                     e.hidden};
  both.count = 2, both.stride_b = width * c.channels, both.stride_c = numbers;
  e.products_.multiply(both);
  Real* const up = e.hidden + numbers;
  kernel::cuda::multiply_by_gate(
      kernel::cuda::GatedRows<Real>{kernel::GateActivation::silu, rows_, width, e.hidden, width, up,
                                    up},
      gpu_);
  return up;
}

template <class Real>
void GpuExecutor<Real>::Block::add_network() {
  add_product(gated_hidden(w.gate_and_up, c.feed_forward), w.down, c.feed_forward, w.ffn_norm);
}

}  // namespace deltasane::gated_delta
