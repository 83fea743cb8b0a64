// The tokenizer that belongs to a model file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "text/tokenizer.h"

namespace deltasane {

// An RWKV World vocabulary file, or "byte".
std::unique_ptr<Tokenizer> open_vocabulary(const std::string& name);

// From the tokens inside of the file, from rwkv_vocab_v20230424.txt beside it, or bytes for a model
// with 256 rows of embedding. Null where there is none of these.
std::unique_ptr<Tokenizer> find_tokenizer(const std::optional<std::vector<std::string>>& inside,
                                          int64_t embedding_rows, const fs::path& model);

// Where find_tokenizer looks for a file.
fs::path vocabulary_beside(const fs::path& model);

}  // namespace deltasane
