// For tests: small models of the kinds that the Hugging Face libraries have.
#pragma once

#include "model/gated_delta/train/initialise.h"

namespace deltasane::gated_delta {

// Of every kind that the libraries have: with few sizes that are equal by chance.
inline std::vector<Config> published_configs() {
  std::vector<Config> all;
  for (const char* const kind : {"gated_deltanet", "delta_net", "kda", "qwen3_5", "olmo_hybrid"}) {
    Config c = config_for({4, 48, 8, 30, kind});
    c.feed_forward = 20;
    all.push_back(c);
  }
  all[0].value_heads = 2 * all[0].key_heads, all[0].gate = OutputGate::sigmoid;
  all[1].taps = 0, all[1].beta_scale = 0;
  all[2].decay_bound = -5;
  all[3].value_heads = 2 * all[3].key_heads;
  all[4].rotary = all[4].head_size, all[4].theta = 500;
  Config fla = all[0];  // with attention
  fla.mixers[2] = Mixer::attention, fla.heads = 6, fla.kv_heads = 3, fla.head_size = fla.rotary = 8;
  fla.theta = 1000, fla.window = 9;
  all.push_back(fla);
  Config moe = all[3];
  moe.model_type = "qwen3_5_moe", moe.experts.assign(4, true);
  moe.expert_count = 5, moe.experts_used = 2, moe.expert_size = 6, moe.shared_expert_size = 7;
  moe.shared_expert_gate = true;
  all.push_back(moe);
  moe.model_type = "qwen3_next", moe.renormalize = false, moe.experts[1] = false;
  all.push_back(moe);
  Config kimi = config_for({4, 48, 8, 30, "kda"});
  kimi.model_type = "kimi_linear", kimi.gate_bias = false, kimi.feed_forward = 20;
  kimi.heads = 3, kimi.latent_size = 10, kimi.shared_key_size = 6, kimi.latent_norm_eps = 1e-6;
  kimi.latent_key_size = 8, kimi.latent_value_size = 7;
  kimi.mixers[3] = Mixer::latent, kimi.experts = {false, true, true, true};
  kimi.expert_count = 5, kimi.experts_used = 2, kimi.expert_size = 6, kimi.shared_expert_size = 6;
  kimi.sigmoid_router = true, kimi.expert_scale = 2.5;
  all.push_back(kimi);
  return all;
}

}  // namespace deltasane::gated_delta
