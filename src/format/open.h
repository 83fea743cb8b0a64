// Opens a tensor file of any supported format, detected by its first bytes, never by its name.
//
// A folder is a Hugging Face model: config.json, if there is one, becomes metadata under
// `config.` (scalars, nested keys joined by dots), and the tensors are in model.safetensors or in
// the shards of model.safetensors.index.json. Or it is a folder with one model file of any format.
#pragma once

#include "format/contents/finite.h"

namespace deltasane {

TensorFile open_tensor_file(const fs::path& path,
                            NonFiniteWeights non_finite = NonFiniteWeights::refuse,
                            Checksums checksums = Checksums::verify);

// Whether the file begins as one of these formats, or is a folder.
bool looks_like_tensor_file(const fs::path& path);

}  // namespace deltasane
