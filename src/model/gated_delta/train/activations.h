// What one layer keeps of its forward pass for its backward pass, and the gradients that all layers
// share, on the CPU. (rows, columns) each; rows are the tokens of all sequences.
#pragma once

#include <algorithm>
#include <vector>

#include "kernel/experts/experts.h"
#include "model/gated_delta/config.h"
#include "tensor/tensor.h"

namespace deltasane::gated_delta {

// What a layer has; a set of activations that several layers use has all that they have.
struct LayerKinds {
  bool recurrent = false, attention = false, latent = false, norms_after = false;
  bool network = false, experts = false;

  static LayerKinds of(const Config& c, int64_t layer) {
    const Mixer mixer = c.mixers[size_t(layer)];
    const bool attention = mixer == Mixer::attention, experts = c.experts[size_t(layer)];
    return {mixer == Mixer::recurrent,
            attention,
            mixer == Mixer::latent,
            attention && c.norms_after,
            !experts,
            experts};
  }
  static LayerKinds all(const Config& c) {
    LayerKinds found;
    for (int64_t layer = 0; layer < c.layers(); ++layer) {
      const LayerKinds one = of(c, layer);
      found.recurrent |= one.recurrent, found.attention |= one.attention;
      found.latent |= one.latent, found.norms_after |= one.norms_after;
      found.network |= one.network, found.experts |= one.experts;
    }
    return found;
  }
};

struct BatchSizes {
  int64_t rows, chunks;  // of all sequences
};

// Widths of attention's rows.
struct AttentionWidths {
  int64_t queries, keys, values, cached;  // cached: a row of latent attention
  explicit AttentionWidths(const Config& c)
      : queries(c.heads * c.head_size),
        keys(c.kv_heads * c.head_size),
        values(c.heads * c.latent_value_size),
        cached(c.latent_size + c.shared_key_size) {}
};

struct LayerActivations {
  Tensor<float> x, h, x_ffn, h_ffn;     // the layer's input, in the middle, and normalised
  Tensor<float> mixer_out, ffn_out;     // before norms that come after
  Tensor<float> mixed;                  // what the mixer's output matrix reads
  Tensor<float> gate;                   // of the recurrence or of attention, before its activation
  // recurrence
  Tensor<float> qkv, convolved;         // before and after the convolution
  Tensor<float> beta;                   // after sigmoid
  Tensor<float> decay_z, decay, decay_low, gate_low, read;
  Tensor<float> x_tau, z, tau;          // (chunks, C), (chunks, heads): SANE
  // attention: as projected, and as used
  Tensor<float> q_raw, k_raw, q, k, v, attended;
  // latent attention; q: (rows, heads (key + shared key))
  Tensor<float> latent_q_raw, cached_raw, cached, latent_q, latent_read;
  // feed-forward
  Tensor<float> ffn_gate, ffn_up, router, shared_gate, shared_up, shared_weight;
  std::vector<kernel::Choice> chosen;

  // visit(tensor, rows, columns) for those that layers of these kinds have.
  template <class Visit>
  static void each(const Config& c, const LayerKinds& kinds, const BatchSizes& n, Visit visit) {
    using A = LayerActivations;
    const AttentionWidths wide(c);
    const auto keep = [&](std::initializer_list<Tensor<float> A::*> all, int64_t columns) {
      for (const auto tensor : all)
        if (columns > 0) visit(tensor, n.rows, columns);
    };
    keep({&A::x, &A::h, &A::x_ffn, &A::h_ffn}, c.channels);
    if (kinds.norms_after) keep({&A::mixer_out, &A::ffn_out}, c.channels);
    int64_t mixed = 0, gate = 0;
    if (kinds.recurrent) {
      mixed = c.value_channels(), gate = c.gate == OutputGate::none ? 0 : mixed;
      keep({&A::qkv, &A::convolved}, c.mixed_channels());
      keep({&A::beta}, c.value_heads);
      keep({&A::decay_z, &A::decay}, c.decays());
      keep({&A::decay_low}, c.decay_rank), keep({&A::gate_low}, c.gate_rank);
      keep({&A::read}, c.value_channels());
      if (c.sane && n.chunks > 0) {
        visit(&A::x_tau, n.chunks, c.channels);
        visit(&A::z, n.chunks, c.value_heads), visit(&A::tau, n.chunks, c.value_heads);
      }
    }
    if (kinds.attention) {
      mixed = std::max(mixed, wide.queries);
      if (c.attention_gate) gate = std::max(gate, wide.queries);
      if (c.qk_norm != QkNorm::none) keep({&A::q_raw}, wide.queries), keep({&A::k_raw}, wide.keys);
      keep({&A::q, &A::attended}, wide.queries), keep({&A::k, &A::v}, wide.keys);
    }
    if (kinds.latent) {
      mixed = std::max(mixed, wide.values);
      keep({&A::latent_q_raw}, c.heads * (c.latent_key_size + c.shared_key_size));
      keep({&A::cached_raw, &A::cached}, wide.cached);
      keep({&A::latent_q}, c.heads * wide.cached), keep({&A::latent_read}, c.heads * c.latent_size);
    }
    keep({&A::mixed}, mixed), keep({&A::gate}, gate);
    if (kinds.network) keep({&A::ffn_gate, &A::ffn_up}, c.feed_forward);
    if (kinds.experts) {
      keep({&A::router}, c.expert_count);
      keep({&A::shared_gate, &A::shared_up}, c.shared_expert_size);
      keep({&A::shared_weight}, c.shared_expert_size && c.shared_expert_gate ? 1 : 0);
    }
  }

  LayerActivations(const Config& c, const LayerKinds& kinds, const BatchSizes& n) {
    each(c, kinds, n, [&](Tensor<float> LayerActivations::*tensor, int64_t rows, int64_t columns) {
      this->*tensor = Tensor<float>({rows, columns});
    });
    if (kinds.experts) chosen.resize(size_t(n.rows * c.experts_used));
  }
  // In bytes, before anything is allocated; what is allocated is the same.
  static uint64_t bytes(const Config& c, const LayerKinds& kinds, const BatchSizes& n) {
    int64_t floats = 0;
    each(c, kinds, n, [&](Tensor<float> LayerActivations::*, int64_t rows, int64_t columns) {
      floats += rows * columns;
    });
    const int64_t choices = kinds.experts ? n.rows * c.experts_used : 0;
    return uint64_t(floats) * sizeof(float) + uint64_t(choices) * sizeof(kernel::Choice);
  }
};

// Gradients, and what is computed again: shared by all layers.
struct PassScratch {
  Tensor<float> dh, dout, dmixed, dgate;
  Tensor<float> dqkv, dconvolved, qk, dqk, beta, dbeta, ddecay, dlow, dread, dtau, dx_tau;
  Tensor<float> dq, dk, dv, dattended;
  Tensor<float> dlatent_q_raw, dcached, dlatent_q, dlatent_read;
  Tensor<float> hidden, dhidden, dffn_gate, drouter, dshared_weight;
  std::vector<float> dweight;  // of the chosen experts

  template <class Visit>
  static void each(const Config& c, const LayerKinds& kinds, const BatchSizes& n, Visit visit) {
    using S = PassScratch;
    const AttentionWidths wide(c);
    const auto have = [&](std::initializer_list<Tensor<float> S::*> all, int64_t columns) {
      for (const auto tensor : all)
        if (columns > 0) visit(tensor, n.rows, columns);
    };
    have({&S::dh, &S::dout}, c.channels);
    int64_t mixed = 0, gate = 0, hidden = 0;
    if (kinds.recurrent) {
      mixed = c.value_channels(), gate = c.gate == OutputGate::none ? 0 : mixed;
      have({&S::dqkv, &S::dconvolved}, c.mixed_channels());
      have({&S::qk, &S::dqk}, 2 * c.key_channels());
      have({&S::beta, &S::dbeta}, c.value_heads), have({&S::ddecay}, c.decays());
      have({&S::dlow}, std::max(c.decay_rank, c.gate_rank)), have({&S::dread}, c.value_channels());
      if (c.sane && n.chunks > 0) {
        visit(&S::dtau, n.chunks, c.value_heads), visit(&S::dx_tau, n.chunks, c.channels);
      }
    }
    if (kinds.attention) {
      mixed = std::max(mixed, wide.queries);
      if (c.attention_gate) gate = std::max(gate, wide.queries);
      have({&S::dq, &S::dattended}, wide.queries), have({&S::dk, &S::dv}, wide.keys);
    }
    if (kinds.latent) {
      mixed = std::max(mixed, wide.values);
      have({&S::dlatent_q_raw}, c.heads * (c.latent_key_size + c.shared_key_size));
      have({&S::dcached}, wide.cached), have({&S::dlatent_q}, c.heads * wide.cached);
      have({&S::dlatent_read}, c.heads * c.latent_size);
    }
    have({&S::dmixed}, mixed), have({&S::dgate}, gate);
    if (kinds.network) hidden = c.feed_forward;
    if (kinds.experts) {
      hidden = std::max(hidden, c.shared_expert_size);
      have({&S::drouter}, c.expert_count);
      have({&S::dshared_weight}, c.shared_expert_size && c.shared_expert_gate ? 1 : 0);
    }
    have({&S::hidden, &S::dhidden, &S::dffn_gate}, hidden);
  }

  PassScratch(const Config& c, const BatchSizes& n) {
    const LayerKinds kinds = LayerKinds::all(c);
    each(c, kinds, n, [&](Tensor<float> PassScratch::*tensor, int64_t rows, int64_t columns) {
      this->*tensor = Tensor<float>({rows, columns});
    });
    if (kinds.experts) dweight.resize(size_t(n.rows * c.experts_used));
  }
  static uint64_t bytes(const Config& c, const BatchSizes& n) {
    const LayerKinds kinds = LayerKinds::all(c);
    int64_t floats = kinds.experts ? n.rows * c.experts_used : 0;
    each(c, kinds, n, [&](Tensor<float> PassScratch::*, int64_t rows, int64_t columns) {
      floats += rows * columns;
    });
    return uint64_t(floats) * sizeof(float);
  }
};

// The first columns of rows that other layers use wider ones of: packed rows of this width.
inline View<float> narrow(Tensor<float>& rows, int64_t columns) {
  return {rows.data(), {rows.shape()[0], columns}};
}

}  // namespace deltasane::gated_delta
