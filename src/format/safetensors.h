// safetensors: a 64-bit header length, a JSON header, tensors without holes.
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

// The shards that an index (model.safetensors.index.json) names, as one file. They are looked for
// beside the index, by their last name only; a name with a folder in it is refused.
TensorFile open_safetensors_index(const fs::path& index);

// Writes tensors that are made one at a time, in an order the writer chooses (widest elements
// first, otherwise as planned), so that every tensor lies on a multiple of its element size. The
// tensors begin on a multiple of 64 bytes. Replaces `path` as a whole or not at all.
void write_safetensors(const fs::path& path, std::vector<PlannedTensor> plan,
                       const Metadata& metadata, const FillTensor& fill);

}  // namespace deltasane
