// GGUF versions 2 and 3, little-endian: magic, version, counts, key-value pairs, tensor records,
// padding, tensors. ggml lists dimensions fastest first; shapes here are row-major.
//
// Metadata keeps every scalar as text, floats with the fewest digits that read back the same; of an
// array it has "[type x count]". Arrays of texts, of integers and of f32 are kept beside it;
// `tokenizer.ggml.tokens` becomes the vocabulary. Tensors of unsupported types are listed as foreign.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>

#include "format/tensor_file.h"
#include "format/tensor_plan.h"

namespace deltasane {

TensorFile read_gguf(std::span<const std::byte> bytes, const std::string& name);
TensorFile open_gguf(const fs::path& path);

using GgufValue = std::variant<uint32_t, int32_t, float, bool, std::string,
                               std::vector<std::string>, std::vector<int32_t>, std::vector<float>>;
struct GgufEntry {
  std::string key;
  GgufValue value;
};

// Called when so many bytes of the tensors are written.
using WriteProgress = std::function<void(uint64_t done, uint64_t all)>;

// Version 3, tensors on multiples of 32 bytes, in the planned order, produced one at a time.
// Replaces `path` atomically.
void write_gguf(const fs::path& path, const std::vector<GgufEntry>& entries,
                const std::vector<PlannedTensor>& plan, const FillTensor& fill,
                const WriteProgress& progress = {});

}  // namespace deltasane
