#include "text/find_tokenizer.h"

#include "text/byte_tokenizer.h"
#include "text/world_tokenizer.h"

namespace deltasane {

std::unique_ptr<Tokenizer> open_vocabulary(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  return std::make_unique<WorldTokenizer>(world_from_file(name));
}

fs::path vocabulary_beside(const fs::path& model) {
  return (fs::is_directory(model) ? model : model.parent_path()) / "rwkv_vocab_v20230424.txt";
}

std::unique_ptr<Tokenizer> find_tokenizer(const std::optional<std::vector<std::string>>& inside,
                                          int64_t embedding_rows, const fs::path& model) {
  if (inside) return std::make_unique<WorldTokenizer>(world_from_gguf_tokens(*inside));
  const fs::path beside = vocabulary_beside(model);
  if (fs::exists(beside)) return std::make_unique<WorldTokenizer>(world_from_file(beside));
  if (embedding_rows == 256) return std::make_unique<ByteTokenizer>();
  return nullptr;
}

}  // namespace deltasane
