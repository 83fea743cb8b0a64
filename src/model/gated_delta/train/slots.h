// Where the parameters of a layer lie in the row, found once by the tensor table.
#pragma once

#include <vector>

#include "model/gated_delta/config.h"
#include "model/train/training_pass.h"

namespace deltasane::gated_delta {

struct LayerSlots {
  Mixer mixer;
  bool norms_after, experts;
  Slot mixer_norm, ffn_norm;  // before their halves, or after them
  Slot output;                // of the mixer
  // recurrence
  Slot qkv, convolution, beta, decay, decay_down, decay_up, decay_log_rate, decay_bias;
  Slot gate_down, gate_up, gate_bias, output_norm, w_tau;
  Slot gate;  // of the recurrence, or of attention
  // attention, latent attention
  Slot q, k, v, q_norm, k_norm, kv_down, kv_norm, k_up, v_up;
  // feed-forward
  struct Network {
    Slot gate, up, down;
  };
  Network ffn, all_experts, shared;  // all_experts: (experts, out, in) each
  Slot router, router_bias, shared_gate;
};

struct ModelSlots {
  ParameterLayout layout;
  Slot embedding, norm, head;  // head: the embedding where it is tied
  std::vector<LayerSlots> layers;

  explicit ModelSlots(const Config& config);
  ModelSlots(const ModelSlots&) = delete;  // slots point into the layout
  ModelSlots& operator=(const ModelSlots&) = delete;
};

}  // namespace deltasane::gated_delta
