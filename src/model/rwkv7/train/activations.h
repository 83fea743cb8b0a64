// What one layer keeps of its forward pass for its backward pass, on the CPU.
//
// (rows, channels) each, unless said otherwise; rows are the tokens of all sequences. The six
// token-shift mixes are not kept: they are computed again from u.
#pragma once

#include <algorithm>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "tensor/tensor.h"

namespace deltasane::rwkv7 {

struct LayerActivations {
  Tensor<float> x;                           // the layer's input
  Tensor<float> u, r, w, k, v, a, b, g;      // as the recurrence and the output use them
  Tensor<float> raw_w, raw_a, raw_k, raw_v;  // before time_mix_inputs
  Tensor<float> gate;                        // not in the first layer
  Tensor<float> read, y;                     // the recurrence's output; after time_mix_output
  Tensor<float> low_w, low_a, low_v, low_g;  // (rows, rank)
  Tensor<float> x_tau, z, tau;               // (sequences, chunks, C), (sequences, chunks, H): SANE
  Tensor<float> x_ffn, u_ffn;
  Tensor<float> hidden;  // (rows, feed_forward), after the activation

  LayerActivations(const Rwkv7Shape& s, int64_t sequences, int64_t chunks, int64_t rows,
                   bool first) {
    for (Tensor<float>* t : {&x, &u, &r, &w, &k, &v, &a, &b, &g, &raw_w, &raw_a, &raw_k, &raw_v,
                             &read, &y, &x_ffn, &u_ffn})
      *t = Tensor<float>({rows, s.channels});
    low_w = Tensor<float>({rows, s.rank_w}), low_a = Tensor<float>({rows, s.rank_a});
    low_g = Tensor<float>({rows, s.rank_g});
    if (!first) low_v = Tensor<float>({rows, s.rank_v}), gate = Tensor<float>({rows, s.channels});
    if (s.sane) {
      x_tau = Tensor<float>({sequences * chunks, s.channels});
      z = Tensor<float>({sequences * chunks, s.heads});
      tau = Tensor<float>({sequences * chunks, s.heads});
    }
    hidden = Tensor<float>({rows, s.feed_forward});
  }

  int64_t elements() const {
    int64_t sum = 0;
    for (const Tensor<float>* t :
         {&x,    &u,     &r,     &w,     &k,     &v,     &a,   &b,   &g,     &raw_w, &raw_a, &raw_k,
          &raw_v, &gate, &read,  &y,     &low_w, &low_a, &low_v, &low_g, &x_tau, &z,   &tau,
          &x_ffn, &u_ffn, &hidden})
      sum += t->elements();
    return sum;
  }
  // The same, before anything is allocated.
  static int64_t elements(const Rwkv7Shape& s, int64_t sequences, int64_t chunks, int64_t rows,
                          bool first) {
    int64_t of_row = 17 * s.channels + s.rank_w + s.rank_a + s.rank_g + s.feed_forward;
    if (!first) of_row += s.rank_v + s.channels;
    const int64_t of_chunk = s.sane ? s.channels + 2 * s.heads : 0;
    return rows * of_row + sequences * chunks * of_chunk;
  }
};

// The mixes, and the gradients of a backward pass: shared by all layers.
struct PassScratch {
  Tensor<float> mix[6];  // by Mix: r w k v a g
  Tensor<float> du, dr, dw, dk, dv, da, db, dg, dy, dgate, sr, sk, sv;
  Tensor<float> dhidden;  // (rows, feed_forward)
  Tensor<float> dlow;     // (rows, largest rank)
  Tensor<float> dtau, dx_tau;

  PassScratch(const Rwkv7Shape& s, int64_t sequences, int64_t chunks, int64_t rows)
      : dhidden({rows, s.feed_forward}),
        dlow({rows, std::max({s.rank_w, s.rank_a, s.rank_v, s.rank_g})}),
        dtau({sequences * chunks, s.heads}),
        dx_tau({sequences * chunks, s.channels}) {
    for (Tensor<float>& t : mix) t = Tensor<float>({rows, s.channels});
    for (Tensor<float>* t : {&du, &dr, &dw, &dk, &dv, &da, &db, &dg, &dy, &dgate, &sr, &sk, &sv})
      *t = Tensor<float>({rows, s.channels});
  }
  int64_t elements() const {
    int64_t sum = dhidden.elements() + dlow.elements() + dtau.elements() + dx_tau.elements();
    for (const Tensor<float>& t : mix) sum += t.elements();
    for (const Tensor<float>* t :
         {&du, &dr, &dw, &dk, &dv, &da, &db, &dg, &dy, &dgate, &sr, &sk, &sv})
      sum += t->elements();
    return sum;
  }
  static int64_t elements(const Rwkv7Shape& s, int64_t sequences, int64_t chunks, int64_t rows) {
    const int64_t rank = std::max({s.rank_w, s.rank_a, s.rank_v, s.rank_g});
    return rows * (19 * s.channels + s.feed_forward + rank) +
           sequences * chunks * (s.heads + s.channels);
  }
  View<float> low(int64_t rank) { return {dlow.data(), {dlow.shape()[0], rank}}; }
};

}  // namespace deltasane::rwkv7
