// The tokenizer of a published model, as the Hugging Face libraries open one.
#pragma once

#include "base/io/file.h"
#include "text/tokenizer.h"

namespace deltasane::cli {

// World vocabularies: the vocabulary file, tokenizer_config.json with the chat template, and the
// class that it names. BPE: a copy of `json`, the tokenizer.json that was read, and of the
// tokenizer_config.json beside it; an empty path: none was. Returns a sentence for the model card.
std::string write_tokenizer_files(const fs::path& folder, const Tokenizer& tokenizer,
                                  const fs::path& json = {});
// The vocabulary file alone, where there is one.
void write_vocabulary_file(const fs::path& folder, const Tokenizer& tokenizer);

}  // namespace deltasane::cli
