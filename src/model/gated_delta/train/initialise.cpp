#include "model/gated_delta/train/initialise.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/random.h"
#include "model/gated_delta/train/layout.h"

namespace deltasane::gated_delta {
namespace {

constexpr double deviation = 0.02;  // initializer_range

// log of a rate in [0, 16); KDA: [1, 16)
double log_rate(const Config& c, Random& random) {
  const double low = c.rule == kernel::Rule::kda ? 1.0 : 0.0;
  return std::log(std::max(random.uniform(low, 16), 1e-6));
}

// Whose softplus is between 0.001 and 0.1, equally likely in the logarithm. Qwen's begin as 1.
double decay_bias(const Config& c, Random& random) {
  if (c.model_type.starts_with("qwen3_")) return 1;
  const double dt = std::exp(random.uniform(std::log(0.001), std::log(0.1)));
  return dt + std::log(-std::expm1(-dt));
}

int64_t rounded_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Kind {
  std::string_view name;
  void (*set)(Config& c, const ModelSizes& sizes);
};

void set_heads(Config& c, int64_t heads, int64_t keys, int64_t values) {
  c.key_heads = c.value_heads = std::max<int64_t>(1, heads);
  c.key_size = keys, c.value_size = values;
}

// Every fourth layer is attention.
void set_hybrid(Config& c) {
  for (size_t i = 3; i < c.mixers.size(); i += 4) c.mixers[i] = Mixer::attention;
}

constexpr Kind kinds[] = {
    {"gated_deltanet",
     [](Config& c, const ModelSizes& n) {
       set_heads(c, 3 * n.channels / (4 * n.head_size), n.head_size, 2 * n.head_size);
       c.gate = OutputGate::silu;
     }},
    {"delta_net",
     [](Config& c, const ModelSizes& n) {
       c.rule = kernel::Rule::deltanet;
       set_heads(c, n.channels / n.head_size, n.head_size, n.head_size);
     }},
    {"kda",
     [](Config& c, const ModelSizes& n) {
       c.rule = kernel::Rule::kda;
       set_heads(c, n.channels / n.head_size, n.head_size, n.head_size);
       c.gate = OutputGate::sigmoid, c.gate_bias = true;
       c.decay_rank = c.gate_rank = n.head_size;
     }},
    {"qwen3_5",
     [](Config& c, const ModelSizes& n) {
       set_heads(c, 2 * n.channels / n.head_size, n.head_size, n.head_size);
       set_hybrid(c);
       c.gate = OutputGate::silu, c.tied = true;
       c.heads = std::max<int64_t>(1, n.channels / n.head_size);
       c.kv_heads = c.heads % 4 == 0 ? c.heads / 4 : c.heads;
       c.head_size = 2 * n.head_size, c.rotary = c.head_size / 8 * 2, c.theta = 1e7;
       c.attention_gate = true, c.qk_norm = QkNorm::head;
       c.feed_forward = 7 * n.channels / 2;
     }},
    {"olmo_hybrid",
     [](Config& c, const ModelSizes& n) {
       const int64_t heads = std::max<int64_t>(1, n.channels / n.head_size);
       set_heads(c, heads, std::max<int64_t>(1, 3 * n.head_size / 4), 3 * n.head_size / 2);
       set_hybrid(c);
       c.gate = OutputGate::silu, c.beta_scale = 2, c.output_norm_eps = 1e-5;
       c.heads = c.kv_heads = heads, c.head_size = n.head_size;
       c.qk_norm = QkNorm::row, c.norms_after = true;
     }},
};

}  // namespace

Config config_for(const ModelSizes& sizes) {
  if (sizes.layers < 1 || sizes.channels < 1 || sizes.head_size < 1 || sizes.vocabulary < 2 ||
      sizes.channels % sizes.head_size != 0)
    fail(Fault::usage, "model: expected layers, channels in whole heads and a vocabulary, found ",
         sizes.layers, " layers, ", sizes.channels, " channels in heads of ", sizes.head_size,
         ", vocabulary ", sizes.vocabulary);
  if (sizes.beta_scale < 0 || sizes.beta_scale > 2)
    fail(Fault::usage, "beta_scale: expected 0 to 2, found ", sizes.beta_scale);
  const std::string_view wanted = sizes.kind.empty() ? kinds[0].name : sizes.kind;
  std::string known;
  for (const Kind& kind : kinds) {
    known += cat(known.empty() ? "" : ", ", kind.name);
    if (kind.name != wanted) continue;
    Config c;
    c.model_type = kind.name;
    c.vocabulary = sizes.vocabulary, c.channels = sizes.channels;
    c.norm_eps = c.output_norm_eps = 1e-6, c.taps = 4;
    c.mixers.assign(size_t(sizes.layers), Mixer::recurrent);
    c.experts.assign(size_t(sizes.layers), false);
    c.feed_forward = rounded_up(8 * sizes.channels / 3, 256);
    kind.set(c, sizes);
    if (sizes.beta_scale != 0) c.beta_scale = sizes.beta_scale;
    expect_consistent(c, "model");
    return c;
  }
  fail(Fault::usage, "kind: expected ", known, ", or a model file to begin with; found '", wanted,
       "'");
}

Parameters initialised(const Config& config, const std::optional<SaneSettings>& sane,
                       const Initialisation& settings) {
  if (settings.rate_bias_shift != 0)
    fail(Fault::usage, "rate_bias_shift: expected 0 for this architecture, which has no bias of ",
         "beta, found ", settings.rate_bias_shift);
  if (settings.decay_bias_shift != 0 && config.decays() == 0)
    fail(Fault::usage, "decay_bias_shift: expected 0 for a rule without decays, found ",
         settings.decay_bias_shift);
  Parameters model(parameter_layout(config), sane);
  for (const ParameterSlot& slot : model.layout().slots()) {
    Random random(settings.seed, stream_named(slot.name));
    const auto ends = [&](std::string_view end) { return slot.name.ends_with(end); };
    for (float& x : model.of(slot.name)) {
      if (slot.role == ParameterRole::sane || ends("gate_bias") || ends("router_bias"))
        x = 0;
      else if (ends("norm.weight"))
        x = 1;
      else if (ends("decay_log_rate"))
        x = float(log_rate(config, random));
      else if (ends("decay_bias"))
        x = float(decay_bias(config, random) + settings.decay_bias_shift);
      else
        x = float(deviation * random.normal());
    }
  }
  return model;
}

}  // namespace deltasane::gated_delta
