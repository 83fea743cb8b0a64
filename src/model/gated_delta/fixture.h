// For tests: small random models of each kind, as files that this program writes.
#pragma once

#include "base/random.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/gated_delta/random.h"
#include "model/registry.h"
#include "support/scratch.h"

namespace deltasane::gated_delta {

inline Config small_config(kernel::Rule rule) {
  Config c;
  c.model_type = "small";
  c.vocabulary = 40, c.channels = 24, c.norm_eps = 1e-6, c.feed_forward = 32;
  c.rule = rule;
  c.mixers = {Mixer::recurrent, Mixer::recurrent}, c.experts = {false, false};
  c.key_heads = 2, c.value_heads = 2, c.key_size = 16, c.value_size = 20, c.taps = 4;
  c.output_norm_eps = 1e-2;  // the norm of an output that cancels does not amplify its rounding errors
  if (rule == kernel::Rule::kda) c.decay_rank = 5;
  return c;
}

// Every setting that changes results, in a few models.
inline std::vector<Config> small_configs() {
  using kernel::Rule;
  std::vector<Config> all{small_config(Rule::deltanet), small_config(Rule::gated_deltanet),
                          small_config(Rule::kda)};
  all[0].tied = true, all[0].taps = 0;
  Config no_beta = all[0];
  no_beta.beta_scale = 0, no_beta.gate = OutputGate::silu, no_beta.taps = 2;
  all.push_back(no_beta);
  all[1].gate = OutputGate::silu, all[1].value_heads = 6, all[1].beta_scale = 2;
  all[1].key_size = 18;
  all[2].gate = OutputGate::sigmoid, all[2].gate_rank = 7, all[2].gate_bias = true;
  all[2].value_heads = 4;
  Config bounded = all[2];
  bounded.decay_bound = -5, bounded.gate_rank = 0, bounded.gate_bias = false;
  all.push_back(bounded);

  Config hybrid = small_config(Rule::gated_deltanet);  // as Qwen3.5
  hybrid.mixers = {Mixer::recurrent, Mixer::attention}, hybrid.gate = OutputGate::silu;
  hybrid.value_heads = 4;
  hybrid.heads = 4, hybrid.kv_heads = 2, hybrid.head_size = 8, hybrid.rotary = 4;
  hybrid.theta = 1e4, hybrid.attention_gate = true, hybrid.qk_norm = QkNorm::head;
  all.push_back(hybrid);
  Config after = hybrid;  // as OLMo-Hybrid
  after.norms_after = true, after.attention_gate = false, after.qk_norm = QkNorm::row;
  after.rotary = 0, after.kv_heads = 4, after.gate = OutputGate::sigmoid;
  all.push_back(after);
  Config windowed = hybrid;
  windowed.qk_norm = QkNorm::none, windowed.rotary = 8, windowed.window = 7;
  all.push_back(windowed);

  Config experts = hybrid;  // as Qwen3-Next
  experts.experts = {true, false}, experts.expert_count = 5, experts.experts_used = 2;
  experts.expert_size = 12, experts.shared_expert_size = 9, experts.shared_expert_gate = true;
  all.push_back(experts);
  Config latent = small_config(Rule::kda);  // as Kimi-Linear
  latent.mixers = {Mixer::recurrent, Mixer::latent}, latent.experts = {false, true};
  latent.heads = 3, latent.latent_size = 10, latent.shared_key_size = 6;
  latent.latent_key_size = 8, latent.latent_value_size = 7, latent.latent_norm_eps = 1e-6;
  latent.expert_count = 5, latent.experts_used = 2, latent.expert_size = 12;
  latent.shared_expert_size = 9, latent.sigmoid_router = true, latent.expert_scale = 2.5;
  all.push_back(latent);
  latent.renormalize = false, latent.shared_expert_size = 0;
  all.push_back(latent);
  return all;
}

struct SmallModel {
  test::Scratch scratch;
  ThreadPool threads{2};
  kernel::Cpu cpu{threads};
  Config config;
  RandomTensors source;
  fs::path path = scratch.path() / "small.safetensors";
  std::unique_ptr<LanguageModel> model;

  explicit SmallModel(const Config& of, const std::optional<SaneSettings>& trained = {},
                      const SaneChoice& sane = {}, uint64_t seed = 1)
      : config(with_sane(of, trained.has_value())), source(config, seed) {
    Metadata metadata;
    if (trained)
      metadata = {{"sane.alpha", cat(trained->alpha)}, {"sane.chunk", cat(trained->chunk)}};
    write(path, config, source, StoredType::f32, metadata);
    model = open_model(path, {.weights = kernel::WeightType::f32, .sane = sane});
  }
  static Config with_sane(Config config, bool sane) {
    config.sane = sane;
    return config;
  }
  // In calls of these lengths, the last one taking what is left.
  std::vector<float> logits(std::span<const int32_t> tokens, SequenceState& state,
                            std::vector<int64_t> calls = {}) const {
    Tensor<float> all({int64_t(tokens.size()), model->vocabulary()});
    int64_t from = 0;
    calls.push_back(int64_t(tokens.size()));
    for (const int64_t call : calls) {
      const int64_t count = std::min(call, int64_t(tokens.size()) - from);
      model->forward({tokens.subspan(size_t(from), size_t(count)), &state, Want::all_logits,
                      all.view().slice(0, from, count)},
                     cpu);
      from += count;
    }
    return {all.span().begin(), all.span().end()};
  }
};

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocabulary, uint64_t seed = 5) {
  Random random(seed);
  std::vector<int32_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(int32_t(random.below(uint64_t(vocabulary))));
  return all;
}

}  // namespace deltasane::gated_delta
