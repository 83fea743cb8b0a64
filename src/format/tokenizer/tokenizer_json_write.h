// A byte-pair encoding as a tokenizer.json, which Hugging Face's libraries and tokenizer_json.h read.
#pragma once

#include <string>

#include "text/bpe/definition.h"

namespace deltasane {

// Without a text of its own for the start of a document, and without a Metaspace: those fail.
std::string tokenizer_json_of(const BpeDefinition& definition);

// A byte-level BPE for models of random weights: the bytes, one merge, the pieces of Qwen3.5, and
// <|endoftext|> after them.
BpeDefinition byte_level_bpe();

}  // namespace deltasane
