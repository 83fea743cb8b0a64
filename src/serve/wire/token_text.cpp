#include "serve/wire/token_text.h"

#include "text/utf8.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_ids = size_t{1} << 20;

}  // namespace

std::string end_of_text_name(const Tokenizer& tokenizer) {
  const auto end = tokenizer.end_of_document();
  if (!end) return std::string(1, '\0');
  const std::string_view name = tokenizer.special_name(*end);
  return name.empty() ? "<|rwkv_tokenizer_end_of_text|>" : std::string(name);
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view bytes = tokenizer.bytes_of(id);
  if (bytes.empty()) {
    const std::string_view name = tokenizer.special_name(id);
    if (!name.empty()) return std::string(name);
    return id == tokenizer.end_of_document() ? end_of_text_name(tokenizer) : cat("<|", id, "|>");
  }
  if (valid_utf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += cat("\\x", "0123456789abcdef"[value >> 4], "0123456789abcdef"[value & 15]);
  }
  return text;
}

std::vector<int32_t> encode_text(const Tokenizer& tokenizer, const std::string& text,
                                 bool begins_document) {
  if (const auto end = tokenizer.end_of_document(); end && text == end_of_text_name(tokenizer))
    return {*end};
  return begins_document ? tokenizer.encode_document(text) : tokenizer.encode(text);
}

std::vector<int32_t> read_ids(const Json& list, const std::string& param, int64_t vocabulary) {
  if (list.size() > most_ids)
    refuse_field(param, cat("expected at most ", most_ids, " token ids, found ", list.size()));
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    const bool is_id = id.is_number_unsigned() && id.get<uint64_t>() < uint64_t(vocabulary);
    if (!is_id)
      refuse_field(cat(param, "[", ids.size(), "]"),
                   cat("expected a token id from 0 to ", vocabulary - 1, ", found ",
                       id.is_number() ? id.dump() : "something else"));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace deltasane::serve
