// The gradient of one layer of the delta-rule family: the order of its operators, written once for
// every backend. Read block.h first; steps are named after the ones whose gradient they compute.
//
// dx, the gradient of the layer's result, becomes that of its input. Gradients of parameters are
// added to.
#pragma once

#include "model/gated_delta/block.h"

namespace deltasane::gated_delta {

template <class Ops>
void block_backward(Ops& ops) {
  // from dx to dh, the gradient of what the half reads
  ops.has_experts() ? ops.add_experts_backward() : ops.add_network_backward();
  ops.norm_before_ffn_backward();  // from dh, onto dx

  ops.add_mixer_output_backward();  // from dx to the gradient of what the output matrix reads
  switch (ops.mixer()) {
    case Mixer::recurrent:
      ops.gated_output_norm_backward();
      ops.recurrence_backward();
      ops.decay_and_beta_backward();
      ops.convolve_backward();
      ops.project_recurrent_backward();
      ops.tau_backward();
      break;
    case Mixer::attention:
      ops.gate_attention_backward();
      ops.attend_backward();
      ops.rotate_backward();
      ops.normalize_queries_and_keys_backward();
      ops.project_attention_backward();
      break;
    case Mixer::latent:
      ops.attend_latent_backward();
      ops.project_latent_backward();
      break;
  }
  ops.norm_before_mixer_backward();
}

}  // namespace deltasane::gated_delta
