// safetensors: a 64-bit header length, a JSON header, contiguous tensors.
//
// The reader enforces the whole specification, also where the reference implementation does not:
// the header begins with '{', no key appears twice, offsets tile the rest of the file exactly, a
// tensor's bytes are its shape times its type, `__metadata__` maps strings to strings.
#pragma once

#include "format/tensor_file.h"
#include "format/tensor_plan.h"

namespace deltasane {

TensorFile read_safetensors(std::span<const std::byte> bytes, const std::string& name);
TensorFile open_safetensors(const fs::path& path);

// The shards that an index (model.safetensors.index.json) names, as one file. They must be in the
// folder of the index; a shard name with a path in it is rejected.
TensorFile open_safetensors_index(const fs::path& index);

// Writes tensors that are produced one at a time, widest elements first and otherwise as planned,
// so that every tensor is aligned to its element size. The first tensor is aligned to 64 bytes.
// Replaces `path` atomically.
void write_safetensors(const fs::path& path, std::vector<PlannedTensor> plan,
                       const Metadata& metadata, const FillTensor& fill);

}  // namespace deltasane
