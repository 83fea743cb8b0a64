#include "model/gated_delta/train/slots.h"

#include "model/gated_delta/checkpoint/tensor_table.h"
#include "model/gated_delta/train/layout.h"

namespace deltasane::gated_delta {
namespace {

LayerSlots layer_slots(const ParameterLayout& layout, const Config& config, int64_t layer) {
  const auto slot = [&](std::string_view part) -> Slot {
    const std::string name = layer_tensor(layer, part);
    return layout.has(name) ? &layout.slot(name) : nullptr;
  };
  const auto mixer = [&](std::string_view part) { return slot(cat("mixer.", part)); };
  const auto network = [&](std::string_view part) -> LayerSlots::Network {
    return {slot(cat(part, "gate.weight")), slot(cat(part, "up.weight")),
            slot(cat(part, "down.weight"))};
  };
  const Mixer kind = config.mixers[size_t(layer)];
  const bool after = config.norms_after && kind == Mixer::attention;
  return {.mixer = kind,
          .norms_after = after,
          .experts = config.experts[size_t(layer)],
          .mixer_norm = slot(after ? "mixer_output_norm.weight" : "mixer_norm.weight"),
          .ffn_norm = slot(after ? "ffn_output_norm.weight" : "ffn_norm.weight"),
          .output = mixer("output.weight"),
          .qkv = mixer("qkv.weight"),
          .convolution = mixer("convolution.weight"),
          .beta = mixer("beta.weight"),
          .decay = mixer("decay.weight"),
          .decay_down = mixer("decay_down.weight"),
          .decay_up = mixer("decay_up.weight"),
          .decay_log_rate = mixer("decay_log_rate"),
          .decay_bias = mixer("decay_bias"),
          .gate_down = mixer("gate_down.weight"),
          .gate_up = mixer("gate_up.weight"),
          .gate_bias = mixer("gate_bias"),
          .output_norm = mixer("output_norm.weight"),
          .w_tau = mixer("w_tau"),
          .gate = mixer("gate.weight"),
          .q = mixer("q.weight"),
          .k = mixer("k.weight"),
          .v = mixer("v.weight"),
          .q_norm = mixer("q_norm.weight"),
          .k_norm = mixer("k_norm.weight"),
          .kv_down = mixer("kv_down.weight"),
          .kv_norm = mixer("kv_norm.weight"),
          .k_up = mixer("k_up.weight"),
          .v_up = mixer("v_up.weight"),
          .ffn = network("ffn."),
          .all_experts = network("ffn.experts."),
          .shared = network("ffn.shared."),
          .router = slot("ffn.router.weight"),
          .router_bias = slot("ffn.router_bias"),
          .shared_gate = slot("ffn.shared_gate.weight")};
}

}  // namespace

ModelSlots::ModelSlots(const Config& config)
    : layout(parameter_layout(config)),
      embedding(&layout.slot("embedding.weight")),
      norm(&layout.slot("norm.weight")),
      head(config.tied ? embedding : &layout.slot("head.weight")) {
  for (int64_t layer = 0; layer < config.layers(); ++layer)
    layers.push_back(layer_slots(layout, config, layer));
}

}  // namespace deltasane::gated_delta
