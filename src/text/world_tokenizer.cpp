#include "text/world_tokenizer.h"

#include <utility>

#include "text/vocabulary/gguf_tokens.h"
#include "text/vocabulary/world_file.h"

namespace deltasane {

WorldTokenizer::WorldTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), trie_(vocabulary_) {}

std::string_view WorldTokenizer::bytes_of(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return {};
  return vocabulary_.tokens()[size_t(id)];
}

void WorldTokenizer::append_encoded(std::string_view text, std::vector<int32_t>& ids) const {
  trie_.append_longest_matches(text, ids);
}

WorldTokenizer world_from_file(const fs::path& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  return WorldTokenizer(parse_world_file(bytes, path.string()));
}

WorldTokenizer world_from_gguf_tokens(std::span<const std::string> tokens) {
  return WorldTokenizer(parse_gguf_tokens(tokens));
}

}  // namespace deltasane
