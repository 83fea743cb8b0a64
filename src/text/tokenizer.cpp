#include "text/tokenizer.h"

#include <xxhash.h>

#include "base/cat.h"

namespace deltasane {

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  append_encoded(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += bytes_of(id);
  return text;
}

uint64_t Tokenizer::digest() const {
  std::string all = cat(name(), " ", end_of_document().value_or(-1));
  for (int32_t id = 0; id < vocabulary_size(); ++id) {
    const std::string_view bytes = bytes_of(id);
    all += cat('\0', bytes.size(), '\0', bytes);
  }
  return XXH3_64bits(all.data(), all.size());
}

}  // namespace deltasane
