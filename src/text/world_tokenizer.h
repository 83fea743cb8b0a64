// The RWKV World tokenizer: greedy longest match from left to right.
//
// Id 0 is the end of a document: it has no bytes and no text encodes to it.
#pragma once

#include <cstdint>
#include <span>

#include "base/io/file.h"
#include "text/trie/token_trie.h"
#include "text/tokenizer.h"
#include "text/vocabulary/vocabulary.h"

namespace deltasane {

class WorldTokenizer final : public Tokenizer {
 public:
  explicit WorldTokenizer(Vocabulary vocabulary);

  std::string_view name() const override { return "world"; }
  int32_t vocabulary_size() const override { return int32_t(vocabulary_.tokens().size()); }
  std::optional<int32_t> end_of_document() const override { return 0; }
  std::string_view bytes_of(int32_t id) const override;
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override;

 private:
  Vocabulary vocabulary_;
  TokenTrie trie_;
};

WorldTokenizer world_from_file(const fs::path& path);
WorldTokenizer world_from_gguf_tokens(std::span<const std::string> tokens);

}  // namespace deltasane
