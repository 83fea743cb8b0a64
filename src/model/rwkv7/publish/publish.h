// RWKV-7 as other people's programs take it.
//
// .pth: a flat OrderedDict with the official names and shapes, and v0, v1 and v2 of block 0, which
// official files have and nobody reads (zeros). Such a file has no place for settings: those of a
// SANE model are two tensors of one element, sane.alpha (f64) and sane.chunk (i64).
//
// Hugging Face: FLA's names, shapes and config.json. SANE's tensors are attn.x_tau (1, 1, C) and
// attn.w_tau (C, H) of each layer, its settings the object `sane` of config.json; a loader that does
// not know them leaves them out.
#pragma once

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/sane.h"
#include "model/tensor_source.h"

namespace deltasane {

struct Rwkv7Published {
  const TensorSource& source;
  StoredType type;  // f32, f16 or bf16
  Rwkv7Norms norms;
  std::optional<SaneSettings> sane;  // as the source has the tensors
};

// Fails for norms that are not the official ones: readers of such files know no others.
void write_rwkv7_pth(const fs::path& path, const Rwkv7Published& model);

// model.safetensors, config.json and generation_config.json, into a folder that is there.
void write_rwkv7_hugging_face(const fs::path& folder, const Rwkv7Published& model,
                              std::optional<int32_t> end_of_document);

inline constexpr std::string_view sane_alpha_tensor = "sane.alpha",
                                  sane_chunk_tensor = "sane.chunk";

}  // namespace deltasane
