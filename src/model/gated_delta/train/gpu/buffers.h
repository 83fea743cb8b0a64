// What one layer keeps of its forward pass for its backward pass on a GPU, and what all layers
// share.
//
// (rows, columns) each, unless said otherwise; rows are the tokens of all sequences. Real is the type
// of what matrix products read and write.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/attention/whole_cuda.h"
#include "kernel/decay/cuda.h"
#include "kernel/delta_rule/gated_cuda/gated_rule.h"
#include "kernel/delta_rule/token_cuda/token_rule.h"
#include "kernel/norm/heads_cuda/rms_backward.h"
#include "kernel/short_conv/cuda.h"
#include "kernel/sums/columns_cuda.h"
#include "model/gated_delta/train/activations.h"
#include "model/train/gpu/layered_pass.h"

namespace deltasane::gated_delta::gpu {

// Whether the recurrence is computed by tiles (gated_cuda/), or token by token (token_cuda/).
template <class Real>
bool has_tiles(const Config& c, int64_t chunk) {
  return std::is_same_v<Real, bf16> && chunk == 16 && c.value_size % 32 == 0 &&
         (c.key_size == 64 || c.key_size == 96 || c.key_size == 128 || c.key_size == 256);
}

inline kernel::cuda::GatedRule by_tiles(const Config& c, const GpuBatchSize& size) {
  kernel::cuda::GatedRule op;
  op.rule = c.rule, op.batch = size.sequences, op.time = size.time;
  op.key_heads = c.key_heads, op.heads = c.value_heads;
  op.keys = c.key_size, op.values = c.value_size;
  return op;
}
template <class Real>
kernel::cuda::TokenRule<Real> by_tokens(const Config& c, const GpuBatchSize& size) {
  kernel::cuda::TokenRule<Real> op;
  op.rule = c.rule;
  op.rows.rows = size.rows(), op.rows.sequences = size.sequences, op.rows.longest = size.time;
  op.key_heads = c.key_heads, op.heads = c.value_heads;
  op.keys = c.key_size, op.values = c.value_size;
  op.chunks = size.chunks;
  return op;
}

template <class Real>
kernel::cuda::WholeAttention<Real> attention_of(const Config& c, const GpuBatchSize& size) {
  kernel::cuda::WholeAttention<Real> op;
  op.sequences = size.sequences, op.time = size.time;
  op.heads = c.heads, op.kv_heads = c.kv_heads, op.size = c.head_size;
  op.scale = float(1 / std::sqrt(double(c.head_size))), op.window = c.window;
  return op;
}

// Heads and channels of a norm of `heads` queries or keys.
struct QkNormSize {
  int64_t heads, size;
  QkNormSize(const Config& c, int64_t of_heads)
      : heads(c.qk_norm == QkNorm::row ? 1 : of_heads),
        size(of_heads * c.head_size / std::max<int64_t>(1, heads)) {}
};
inline int64_t qk_norm_scratch(const Config& c, int64_t rows) {
  if (!c.has(Mixer::attention)) return 0;
  const QkNormSize queries(c, c.heads), keys(c, c.kv_heads);
  return std::max(kernel::cuda::rms_backward_scratch(rows, queries.heads, queries.size),
                  kernel::cuda::rms_backward_scratch(rows, keys.heads, keys.size));
}

// Of what the mixer's output matrix reads, and of its gate.
struct MixerWidths {
  int64_t mixed = 0, gate = 0;
  MixerWidths(const Config& c, const LayerKinds& kinds) {
    if (kinds.recurrent) {
      mixed = c.value_channels();
      if (c.gate != OutputGate::none) gate = mixed;
    }
    if (kinds.attention) {
      const int64_t queries = AttentionWidths(c).queries;
      mixed = std::max(mixed, queries);
      if (c.attention_gate) gate = std::max(gate, queries);
    }
  }
};

// Columns of what beta's matrix and, below it, that of a decay make at once: those of beta first. A decay of
// low rank has a matrix of its own.
struct GateColumns {
  int64_t beta, decay, all, decay_step;
  explicit GateColumns(const Config& c)
      : beta(c.beta_scale != 0 ? c.value_heads : 0),
        decay(c.decay_rank == 0 ? c.decays() : 0),
        all(beta + decay),
        decay_step(decay ? all : c.decays()) {}
  template <class T, class Columns>
  void place_decay(T* z, T*& z_decay, const Columns& columns) const {
    if (decay)
      z_decay = z + beta;
    else
      columns(z_decay, decay_step);
  }
};

template <class Real>
struct LayerBuffers {
  float* x_ffn = nullptr;                       // the residual stream between the halves
  Real *h = nullptr, *h_ffn = nullptr;          // a half's normalised input
  Real *gate = nullptr, *mixed = nullptr;       // mixed: what the output matrix reads
  Real *ffn_gate = nullptr, *ffn_up = nullptr;  // side by side
  float *mixer_out = nullptr, *ffn_out = nullptr;  // before norms that come after
  // recurrence
  Real* qkv = nullptr;                             // before the convolution
  Real *q_raw = nullptr, *k_raw = nullptr;         // before they have length 1
  Real *r = nullptr, *k = nullptr, *v = nullptr;   // as the recurrence reads them
  float *z = nullptr, *z_decay = nullptr;          // before their functions (GateColumns)
  float *beta = nullptr, *g = nullptr;             // after them
  Real *decay_low = nullptr, *gate_low = nullptr;  // of low rank
  Real* read = nullptr;
  float* states = nullptr;                 // for the recurrence's gradient
  Real* x_tau = nullptr;                   // (sequences, chunks, C): SANE
  float *z_tau = nullptr, *tau = nullptr;  // (sequences, chunks, H)
  // attention: as projected, and as used
  Real *query_raw = nullptr, *key_raw = nullptr, *query = nullptr, *key = nullptr, *value = nullptr,
       *attended = nullptr;

  void place(MemoryPlan& plan, const Config& c, const LayerKinds& kinds, const GpuBatchSize& size,
             int64_t chunk) {
    const int64_t rows = size.rows();
    const auto columns = [&](auto*& at, int64_t count) { plan.place(at, rows * count); };
    columns(x_ffn, c.channels), columns(h, c.channels), columns(h_ffn, c.channels);
    columns(ffn_gate, 2 * c.feed_forward), ffn_up = ffn_gate + rows * c.feed_forward;
    if (kinds.norms_after) columns(mixer_out, c.channels), columns(ffn_out, c.channels);
    const MixerWidths wide(c, kinds);
    columns(mixed, wide.mixed), columns(gate, wide.gate);
    if (kinds.recurrent) {
      columns(qkv, c.mixed_channels());
      for (Real** one : {&q_raw, &k_raw, &r, &k}) columns(*one, c.key_channels());
      columns(v, c.value_channels()), columns(read, c.value_channels());
      const GateColumns gates(c);
      columns(z, gates.all), columns(beta, c.value_heads), columns(g, c.decays());
      gates.place_decay(z, z_decay, [&](auto*& at, int64_t count) { columns(at, count); });
      columns(decay_low, c.decay_rank), columns(gate_low, c.gate_rank);
      plan.place(states, has_tiles<Real>(c, chunk)
                             ? kernel::cuda::gated_rule_states(by_tiles(c, size))
                             : kernel::cuda::token_rule_states(by_tokens<Real>(c, size)));
      plan.place(x_tau, size.ends() * c.channels);
      for (float** one : {&z_tau, &tau}) plan.place(*one, size.ends() * c.value_heads);
    }
    if (kinds.attention) {
      const AttentionWidths of(c);
      columns(query, of.queries), columns(key, of.keys), columns(value, of.keys);
      query_raw = query, key_raw = key, attended = mixed;
      if (c.qk_norm != QkNorm::none) columns(query_raw, of.queries), columns(key_raw, of.keys);
      if (c.attention_gate) columns(attended, of.queries);
    }
  }
};

// What is computed again, and gradients of the backward pass.
template <class Real>
struct SharedBuffers {
  float *convolution, *rates;  // (taps, C), (H): of the layer that is computed
  Real* hidden;                // what the network's last matrix reads
  Real* dresult;               // the residual stream's gradient, rounded; not used by float
  float* dh;                   // of a half's normalised input
  Real *dffn_gate, *dffn_up;   // side by side
  Real *dmixed, *dread, *dgate, *dr, *dk, *dv, *dqkv, *dz_decay, *dz, *dlow;
  Real *dquery, *dkey, *dvalue, *dattended;
  float *dg, *dbeta;
  float *dtau, *dx_tau;  // (sequences, chunks, H), (sequences, chunks, C)
  Real* dz_tau;          // (sequences, chunks, H)
  float *sums, *rule;    // scratch of the operators' sums over rows, and of the recurrence
  // Of the rows (kernel/rows/ragged_rows.h), the same for every batch.
  int32_t *sequence, *first, *length;
  int64_t* position;
  double *turns, *turns_back;  // (rotary / 2): frequencies of rotary positions, and their negatives
  std::byte* attention;        // scratch

  void place(MemoryPlan& plan, const Config& c, const GpuBatchSize& size, int64_t chunk) {
    const LayerKinds kinds = LayerKinds::all(c);
    const MixerWidths wide(c, kinds);
    const AttentionWidths of(c);
    const int64_t rows = size.rows(), taps = std::max<int64_t>(1, c.taps);
    using namespace kernel::cuda;
    const auto columns = [&](auto*& at, int64_t count) { plan.place(at, rows * count); };
    plan.place(convolution, taps * c.mixed_channels()), plan.place(rates, c.value_heads);
    columns(hidden, c.feed_forward), columns(dresult, c.channels), columns(dh, c.channels);
    columns(dffn_gate, 2 * c.feed_forward), dffn_up = dffn_gate + rows * c.feed_forward;
    columns(dmixed, wide.mixed), columns(dgate, wide.gate);
    for (Real** one : {&dread, &dv}) columns(*one, c.value_channels());
    for (Real** one : {&dquery, &dattended}) columns(*one, of.queries);
    for (Real** one : {&dkey, &dvalue}) columns(*one, of.keys);
    plan.place(turns, c.rotary / 2), plan.place(turns_back, c.rotary / 2);
    plan.place(attention,
               kinds.attention ? int64_t(whole_attention_scratch(attention_of<Real>(c, size))) : 0);
    for (Real** one : {&dr, &dk}) columns(*one, c.key_channels());
    const GateColumns gates(c);
    columns(dqkv, c.mixed_channels()), columns(dz, gates.all);
    gates.place_decay(dz, dz_decay, [&](auto*& at, int64_t count) { columns(at, count); });
    columns(dlow, std::max(c.decay_rank, c.gate_rank));
    columns(dg, c.decays()), columns(dbeta, c.value_heads);
    plan.place(dtau, size.ends() * c.value_heads), plan.place(dx_tau, size.ends() * c.channels);
    plan.place(dz_tau, size.ends() * c.value_heads);
    plan.place(
        sums,
        std::max({rms_backward_scratch(rows, 1, c.channels),
                  rms_backward_scratch(rows, c.value_heads, c.value_size), qk_norm_scratch(c, rows),
                  column_sums_scratch(rows, c.value_channels()), decay_scratch(rows, c.decays()),
                  short_conv_scratch({size.sequences, size.time, c.mixed_channels()}, taps)}));
    kernel::cuda::GatedRule tiles = by_tiles(c, size);
    float saved = 0;
    tiles.states = &saved;  // they are in the layers' buffers
    plan.place(rule, has_tiles<Real>(c, chunk) ? gated_rule_scratch(tiles)
                                               : token_rule_scratch(by_tokens<Real>(c, size)));
    plan.place(sequence, rows);
    plan.place(first, size.sequences), plan.place(length, size.sequences);
    plan.place(position, size.sequences);
  }
  // After place: the rows of equal sequences, each from its first token on.
  kernel::cuda::RaggedRows fill_rows(const GpuBatchSize& size, const Gpu& gpu) const {
    std::vector<int32_t> of_row, begins;
    for (int64_t i = 0; i < size.rows(); ++i) of_row.push_back(int32_t(i / size.time));
    for (int64_t i = 0; i < size.sequences; ++i) begins.push_back(int32_t(i * size.time));
    const std::vector<int32_t> lengths(begins.size(), int32_t(size.time));
    copy_to_gpu(sequence, of_row.data(), of_row.size() * sizeof(int32_t), gpu);
    copy_to_gpu(first, begins.data(), begins.size() * sizeof(int32_t), gpu);
    copy_to_gpu(length, lengths.data(), lengths.size() * sizeof(int32_t), gpu);
    zero_on_gpu(position, begins.size() * sizeof(int64_t), gpu);
    gpu.wait();
    return {size.rows(), size.sequences, size.time, sequence, first, length, position, nullptr};
  }
};

template <class Real>
struct PassBuffers : LayeredBuffers<Real> {
  Config config;
  int64_t chunk;
  std::vector<LayerBuffers<Real>> layers;  // of every layer, or of the one that is computed
  SharedBuffers<Real> shared{};

  PassBuffers(const Config& c, const std::optional<SaneSettings>& sane,
              const PassSettings& settings)
      : LayeredBuffers<Real>(c.layers(), c.channels, c.vocabulary, gpu_batch_size(sane, settings)),
        config(c),
        chunk(sane ? sane->chunk : 16),
        layers(settings.activations == Activations::recompute ? 1 : size_t(c.layers())) {}

  void place_activations(MemoryPlan& plan) {
    LayeredBuffers<Real>::place_activations(plan);
    for (size_t i = 0; i < layers.size(); ++i)
      layers[i].place(
          plan, config,
          layers.size() == 1 ? LayerKinds::all(config) : LayerKinds::of(config, int64_t(i)),
          this->size, chunk);
  }
  void place_rest(MemoryPlan& plan) {
    LayeredBuffers<Real>::place_rest(plan);
    shared.place(plan, config, this->size, chunk);
  }
};

}  // namespace deltasane::gated_delta::gpu
