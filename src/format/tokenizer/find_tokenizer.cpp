#include "format/tokenizer/find_tokenizer.h"

#include "base/printable.h"
#include "format/gguf/gguf.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "format/tokenizer/tokenizer_json.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/byte_tokenizer.h"
#include "text/vocabulary/gguf_tokens.h"
#include "text/world_tokenizer.h"

namespace deltasane {
namespace {

constexpr const char* world_file = "rwkv_vocab_v20230424.txt";
constexpr const char* json_file = "tokenizer.json";

fs::path folder_of(const fs::path& model) {
  return fs::is_directory(model) ? model : model.parent_path();
}

// Whether each token is the byte of its number, but for token 0, which ends documents.
bool is_bytes(const std::vector<std::string>& tokens) {
  const ByteTokenizer bytes;
  if (int32_t(tokens.size()) != bytes.vocabulary_size()) return false;
  for (int32_t id = 1; id < bytes.vocabulary_size(); ++id)
    if (tokens[size_t(id)] != gguf_escaped(bytes.bytes_of(id))) return false;
  return true;
}

// Null: the file has none inside.
std::unique_ptr<Tokenizer> inside(const TensorFile& file) {
  if (!file.vocabulary()) return nullptr;
  const auto model = file.metadata().find("tokenizer.ggml.model");
  if (is_bytes(*file.vocabulary())) return std::make_unique<ByteTokenizer>();
  if (model == file.metadata().end() || model->second == "rwkv")
    return std::make_unique<WorldTokenizer>(world_from_gguf_tokens(*file.vocabulary()));
  if (model->second == "gpt2" || model->second == "llama")
    return std::make_unique<BpeTokenizer>(bpe_of_gguf(file));
  fail(Fault::file, file.path(), ": tokenizer.ggml.model: expected gpt2, llama or rwkv, found ",
       printable(model->second), "; give the model's tokenizer.json");
}

// Null: there is none.
std::unique_ptr<Tokenizer> in_folder(const fs::path& folder) {
  if (fs::exists(folder / json_file))
    return std::make_unique<BpeTokenizer>(read_tokenizer_json(folder / json_file));
  if (fs::exists(folder / world_file))
    return std::make_unique<WorldTokenizer>(world_from_file(folder / world_file));
  return nullptr;
}

}  // namespace

std::unique_ptr<Tokenizer> open_vocabulary(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  const fs::path path = name;
  if (fs::is_directory(path)) {
    if (auto found = in_folder(path)) return found;
    fail(Fault::file, path, ": expected ", json_file, " or ", world_file, " in it, found neither");
  }
  if (path.extension() == ".json")
    return std::make_unique<BpeTokenizer>(read_tokenizer_json(path));
  if (path.extension() == ".gguf") {
    if (auto found = inside(open_gguf(path))) return found;
    fail(Fault::file, path, ": expected a tokenizer inside it, found none");
  }
  return std::make_unique<WorldTokenizer>(world_from_file(path));
}

fs::path vocabulary_beside(const fs::path& model) { return folder_of(model) / world_file; }

std::optional<fs::path> tokenizer_file_beside(const fs::path& model) {
  for (const char* const name : {json_file, world_file})
    if (fs::exists(folder_of(model) / name)) return folder_of(model) / name;
  return std::nullopt;
}

std::string tokenizers_beside(const fs::path& model) {
  const fs::path folder = folder_of(model);
  return cat(json_file, " or ", world_file, " in ", folder.empty() ? "." : folder.string());
}

std::unique_ptr<Tokenizer> find_tokenizer(const TensorFile& model, int64_t embedding_rows) {
  if (auto found = inside(model)) return found;
  if (auto found = in_folder(folder_of(model.path()))) return found;
  if (embedding_rows == 256) return std::make_unique<ByteTokenizer>();
  return nullptr;
}

}  // namespace deltasane
