// Tokens as JSON shows them: ids checked, bytes that are not UTF-8 spelled out, so that two tokens
// never look alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/wire/body.h"
#include "text/tokenizer.h"

namespace deltasane::serve {

// The text that stands for the end of a document; where a tokenizer has none, one zero byte.
std::string end_of_text_name(const Tokenizer& tokenizer);

// The token's text; "bytes:\xHH..." where that is not UTF-8; a name where it has no bytes.
std::string token_text(const Tokenizer& tokenizer, int32_t id);

// Tokens of a text; the whole name of the end of a document is that token.
std::vector<int32_t> encode_text(const Tokenizer& tokenizer, const std::string& text,
                                 bool begins_document);

std::vector<int32_t> read_ids(const Json& list, const std::string& param, int64_t vocabulary);

}  // namespace deltasane::serve
