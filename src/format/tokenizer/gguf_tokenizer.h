// The tokenizer inside a GGUF file (tokenizer.ggml.*): byte-pair encodings (model "gpt2") with one
// of the pre-tokenizers that are known (tokenizer.ggml.pre).
#pragma once

#include "format/tensor_file.h"
#include "text/bpe/definition.h"

namespace deltasane {

// The file does not record the normalizer. Qwen's is NFC, and is applied, as Hugging Face does;
// llama.cpp leaves it out, so that ids of texts that are not in NFC differ.
BpeDefinition bpe_of_gguf(const TensorFile& file);

}  // namespace deltasane
