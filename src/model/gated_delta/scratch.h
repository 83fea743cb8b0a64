// The activations of one forward pass: (rows, channels) each. Layers of different kinds use different
// ones; memory is touched by those that are used.
#pragma once

#include <algorithm>

#include "model/gated_delta/model.h"

namespace deltasane::gated_delta {

struct Scratch {
  View<float> x, h;  // the residual stream, and a half's normalised input
  // recurrence
  View<float> qkv, convolved, beta, decay, decay_low, gate, gate_low, y;
  // attention; k: of latent attention, what is cached
  View<float> q, k, v, attention_gate, attended, latent_q, latent_read;
  // feed-forward
  View<float> hidden, up, router, shared_hidden, shared_up, shared_gate;

  Scratch(const Config& c, int64_t rows) {
    const bool latent = c.has(Mixer::latent);
    const int64_t queries = c.heads * (latent ? c.latent_key_size + c.shared_key_size : c.head_size);
    const int64_t row = c.latent_size + c.shared_key_size;
    struct {
      View<float>& view;
      int64_t columns;
    } const all[] = {{x, c.channels},
                     {h, c.channels},
                     {qkv, c.mixed_channels()},
                     {convolved, c.mixed_channels()},
                     {beta, c.value_heads},
                     {decay, c.decays()},
                     {decay_low, c.decay_rank},
                     {gate, c.value_channels()},
                     {gate_low, c.gate_rank},
                     {y, c.value_channels()},
                     {q, queries},
                     {k, latent ? row : c.kv_heads * c.head_size},
                     {v, c.kv_heads * c.head_size},
                     {attention_gate, c.attention_gate ? queries : 0},
                     {attended, c.heads * (latent ? c.latent_value_size : c.head_size)},
                     {latent_q, latent ? c.heads * row : 0},
                     {latent_read, latent ? c.heads * c.latent_size : 0},
                     {hidden, c.feed_forward},
                     {up, c.feed_forward},
                     {router, c.expert_count},
                     {shared_hidden, c.shared_expert_size},
                     {shared_up, c.shared_expert_size},
                     {shared_gate, 1}};
    int64_t columns = 0;
    for (const auto& one : all) columns += padded(one.columns);
    memory_ = Buffer(uint64_t(rows * columns) * sizeof(float));
    auto* next = reinterpret_cast<float*>(memory_.data());
    for (const auto& one : all) {
      one.view = {next, {rows, one.columns}};
      next += rows * padded(one.columns);
    }
  }

 private:
  static int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16; }
  Buffer memory_;
};

}  // namespace deltasane::gated_delta
