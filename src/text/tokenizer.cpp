#include "text/tokenizer.h"

#include <xxhash.h>

#include "base/cat.h"

namespace deltasane {

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int32_t> ids;
  if (special == SpecialTokens::recognized)
    append_with_special(text, ids);
  else
    append_encoded(text, ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode_document(std::string_view text,
                                                SpecialTokens special) const {
  const std::span<const int32_t> start = document_start();
  std::vector<int32_t> ids(start.begin(), start.end());
  const std::vector<int32_t> rest = encode(text, special);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  for (const int32_t id : ids) {
    text += bytes_of(id);
    if (special == SpecialTokens::recognized) text += special_name(id);
  }
  if (text.starts_with(added_in_front())) text.erase(0, added_in_front().size());
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
