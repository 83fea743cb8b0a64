// One layer of the delta-rule family: the order of its operators, written once for every backend.
//
//     x += mixer(norm(x))          x += ffn(norm(x))              norms before
//     x += norm(mixer(x))          x += norm(ffn(x))              norms after
//
// recurrent: q k v = conv(W h), beta, decay and gate from h      q, k of length 1, q times K^-1/2
//            y = delta_rule          output(norm(y) act(gate))
// attention: q k v gate = W h        norms of q and k, RoPE      output(attention sigmoid(gate))
// latent:    q, c = W h              c = [norm(latent) | key shared by all heads], cached
//            keys and values are never made: q is multiplied by the keys' matrix, and what attention
//            reads of the latents by the values'
// ffn:       down(silu(gate h) * up h), or the experts that the router chooses and a shared one
//
// A backend (`Ops`) has the steps below, over its own buffers. The operators are defined in
// src/kernel.
#pragma once

#include "model/gated_delta/config.h"

namespace deltasane::gated_delta {

template <class Ops>
void block_forward(Ops& ops) {
  ops.norm_before_mixer();
  switch (ops.mixer()) {
    case Mixer::recurrent:
      ops.project_recurrent();
      ops.tau();
      ops.convolve();
      ops.decay_and_beta();
      ops.recurrence();
      ops.gated_output_norm();
      break;
    case Mixer::attention:
      ops.project_attention();
      ops.normalize_queries_and_keys();
      ops.rotate();
      ops.append_to_cache();
      ops.attend();
      ops.gate_attention();
      break;
    case Mixer::latent:
      ops.project_latent();
      ops.append_latent();
      ops.attend_latent();
      break;
  }
  ops.add_mixer_output();
  ops.norm_before_ffn();
  ops.has_experts() ? ops.add_experts() : ops.add_network();
}

}  // namespace deltasane::gated_delta
