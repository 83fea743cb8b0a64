// The token list of a GGUF file of an RWKV model (tokenizer.ggml.tokens).
//
// A token's bytes are escaped as \t \n \r \\ \' and \xHH; a backslash before any other character is
// dropped, and all other characters are literal. Token 0 (written <s>), [PADn] and empty strings
// are ids without bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/vocabulary/vocabulary.h"

namespace deltasane {

Vocabulary parse_gguf_tokens(std::span<const std::string> tokens,
                             std::string_view name = "tokenizer.ggml.tokens");

// One token in the form above, as other writers of GGUF write it: ASCII only.
std::string gguf_escaped(std::string_view bytes);

}  // namespace deltasane
