// tokenizer.json of Hugging Face's tokenizers: byte-pair encodings, over bytes (ByteLevel) or over
// characters with byte fallback (Llama 2). A kind of model, normalizer, pre-tokenizer,
// post-processor or decoder that is not known is rejected by its name.
//
// `truncation` and `padding` are not used.
#pragma once

#include <string>
#include <string_view>

#include "base/io/file.h"
#include "text/bpe/definition.h"

namespace deltasane {

// `name` is for messages.
BpeDefinition parse_tokenizer_json(std::string_view text, const std::string& name);

// The file, and what the files beside it say: tokenizer_config.json (end of text, chat template),
// generation_config.json (ends of text), chat_template.jinja.
BpeDefinition read_tokenizer_json(const fs::path& path);

// Adds the ends of text that are known by the names of special tokens (<|endoftext|>, </s>,
// <|im_end|>), and chooses the token between documents: one with such a name that ends documents,
// otherwise the first of `ends_text`.
void find_ends(BpeDefinition& definition);

}  // namespace deltasane
