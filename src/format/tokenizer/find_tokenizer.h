// The tokenizer that belongs to a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/io/file.h"
#include "format/tensor_file.h"
#include "text/tokenizer.h"

namespace deltasane {

// By a name that a user gives: "byte", a World vocabulary file, a tokenizer.json, a folder with
// one, or a GGUF file with a tokenizer inside. Fails on anything else.
std::unique_ptr<Tokenizer> open_vocabulary(const std::string& name);

// From inside the model's file, from tokenizer.json or rwkv_vocab_v20230424.txt in its folder, or
// bytes for a model with 256 rows of embedding. Null where there is none of these.
std::unique_ptr<Tokenizer> find_tokenizer(const TensorFile& model, int64_t embedding_rows);

// Where find_tokenizer looks for files, for messages; the World file among them; and the one that
// is there.
std::string tokenizers_beside(const fs::path& model);
fs::path vocabulary_beside(const fs::path& model);
std::optional<fs::path> tokenizer_file_beside(const fs::path& model);

}  // namespace deltasane
