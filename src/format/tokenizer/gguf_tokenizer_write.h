// A tokenizer as entries of a GGUF file.
#pragma once

#include "format/gguf/gguf.h"
#include "text/bpe/definition.h"
#include "text/tokenizer.h"

namespace deltasane {

// An RWKV model's: `tokens` as GGUF stores them (text/vocabulary/gguf_tokens.h), entry 0 "<s>".
// Filled up to `size` entries with unused ones; more fail and name `what`.
std::vector<GgufEntry> gguf_rwkv_tokenizer(std::vector<std::string> tokens, int64_t size,
                                           const std::string& what);

// A byte-level BPE, with one of the pre-tokenizers that GGUF names; any other fails. Filled up likewise.
std::vector<GgufEntry> gguf_bpe_tokenizer(const BpeDefinition& definition, int64_t size,
                                          const std::string& what);

// The tokenizer of another GGUF file, entry by entry; none: it has none.
std::vector<GgufEntry> gguf_tokenizer_of(const TensorFile& file);

// Of a World or a byte tokenizer; any other fails. Byte 0 becomes "<s>", the end of a document.
std::vector<GgufEntry> gguf_rwkv_tokenizer(const Tokenizer& tokenizer, int64_t size,
                                           const std::string& what);

}  // namespace deltasane
