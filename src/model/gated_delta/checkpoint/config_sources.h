// The config of a model from what its file says: config.json of a Hugging Face folder, or GGUF's
// keys. Settings that are not supported are refused by their name.
#pragma once

#include "model/gated_delta/config.h"

namespace deltasane::gated_delta {

// Of a Hugging Face file, where the head is not the embedding.
inline constexpr std::string_view head_name = "lm_head.weight";

bool is_hugging_face_type(std::string_view model_type);
Config hugging_face_config(const TensorFile& file);

bool is_gguf_architecture(std::string_view name);
Config gguf_config(const TensorFile& file);  // a layer's kind is that of its tensors

}  // namespace deltasane::gated_delta
