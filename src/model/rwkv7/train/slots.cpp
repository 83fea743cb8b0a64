#include "model/rwkv7/train/slots.h"

#include "model/rwkv7/train/layout.h"

namespace deltasane::rwkv7 {
namespace {

LayerSlots layer_slots(const ParameterLayout& layout, int64_t layer) {
  const auto slot = [&](std::string_view suffix) -> Slot {
    const std::string name = rwkv7_block_name(layer, suffix);
    return layout.has(name) ? &layout.slot(name) : nullptr;
  };
  const auto att = [&](std::string_view name) { return slot(cat("att.", name)); };
  return {.ln1 = {slot("ln1.weight"), slot("ln1.bias")},
          .ln2 = {slot("ln2.weight"), slot("ln2.bias")},
          .ln_x = {att("ln_x.weight"), att("ln_x.bias")},
          .mu = {att("x_r"), att("x_w"), att("x_k"), att("x_v"), att("x_a"), att("x_g")},
          .x_tau = att("x_tau"),
          .w_tau = att("w_tau"),
          .w0 = att("w0"),
          .a0 = att("a0"),
          .v0 = att("v0"),
          .k_k = att("k_k"),
          .k_a = att("k_a"),
          .r_k = att("r_k"),
          .matrix = {att("receptance.weight"), att("key.weight"), att("value.weight")},
          .output = att("output.weight"),
          .low_rank = {{{att("w1"), att("w2")},
                        {att("a1"), att("a2")},
                        {att("g1"), att("g2")},
                        {att("v1"), att("v2")}}},
          .ffn_mu = slot("ffn.x_k"),
          .ffn_key = slot("ffn.key.weight"),
          .ffn_value = slot("ffn.value.weight")};
}

}  // namespace

ModelSlots::ModelSlots(const Rwkv7Shape& shape)
    : layout(parameter_layout(shape)),
      embedding(&layout.slot("emb.weight")),
      head(&layout.slot("head.weight")),
      ln_out{&layout.slot("ln_out.weight"), &layout.slot("ln_out.bias")} {
  if (shape.embedding_norm)
    ln0 = {&layout.slot("blocks.0.ln0.weight"), &layout.slot("blocks.0.ln0.bias")};
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    layers.push_back(layer_slots(layout, layer));
}

}  // namespace deltasane::rwkv7
