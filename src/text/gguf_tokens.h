// The token list of a GGUF file of an RWKV model (tokenizer.ggml.tokens).
//
// A token's bytes are written with \t \n \r \\ \' and \xHH; any other escaped character stands for
// itself, and everything else for itself too. Token 0 (written <s>), [PADn] and empty strings are
// ids without bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace deltasane {

Vocabulary parse_gguf_tokens(std::span<const std::string> tokens,
                             std::string_view name = "tokenizer.ggml.tokens");

// One token in the form above, as other writers of such files write it: ASCII only.
std::string gguf_escaped(std::string_view bytes);

}  // namespace deltasane
