#include "format/tokenizer/gguf_tokenizer_write.h"

#include <charconv>

#include "format/gguf/gguf_types.h"
#include "text/vocabulary/gguf_tokens.h"

namespace deltasane {
namespace {

// A scalar of the metadata, which keeps texts only, in the type that its key has.
GgufValue scalar_of(const std::string& key, const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (key.ends_with("_token_id") && error == std::errc() && end == text.data() + text.size())
    return id;
  return text;
}

}  // namespace

std::vector<GgufEntry> gguf_tokenizer_of(const TensorFile& file) {
  std::vector<GgufEntry> entries;
  if (!file.vocabulary()) return entries;
  for (const auto& [key, text] : file.metadata()) {
    if (!key.starts_with("tokenizer.")) continue;
    if (key == gguf_tokens_key)
      entries.push_back({key, *file.vocabulary()});
    else if (const auto* const texts = file.texts(key))
      entries.push_back({key, *texts});
    else if (const auto* const integers = file.integers(key))
      entries.push_back({key, std::vector<int32_t>(integers->begin(), integers->end())});
    else if (const auto* const reals = file.reals(key))
      entries.push_back({key, *reals});
    else if (!(text.starts_with('[') && text.ends_with(']')))  // an array that is not kept
      entries.push_back({key, scalar_of(key, text)});
  }
  return entries;
}

std::vector<GgufEntry> gguf_rwkv_tokenizer(std::vector<std::string> tokens, int64_t size,
                                           const std::string& what) {
  const auto count = size_t(size);
  if (tokens.size() > count)
    fail(Fault::argument, what, ": expected a vocabulary of at most ", count, " tokens, found ",
         tokens.size());
  constexpr int32_t normal = 1, control = 3, unused = 5;
  while (tokens.size() < count) tokens.push_back(cat("[PAD", tokens.size(), "]"));
  std::vector<int32_t> types(count, normal);
  for (size_t i = 0; i < count; ++i)
    if (tokens[i] == cat("[PAD", i, "]")) types[i] = unused;
  types[0] = control;
  const bool world = count > 261 && tokens[261] == "\\n\\n";
  std::vector<GgufEntry> entries;  // in the order of their keys, as gguf_tokenizer_of has them
  entries.push_back({"tokenizer.ggml.add_bos_token", false});
  entries.push_back({"tokenizer.ggml.bos_token_id", uint32_t{0}});
  entries.push_back({"tokenizer.ggml.eos_token_id", uint32_t{0}});
  if (world) entries.push_back({"tokenizer.ggml.eot_token_id", uint32_t{261}});
  entries.push_back({"tokenizer.ggml.model", std::string("rwkv")});
  entries.push_back({"tokenizer.ggml.token_type", std::move(types)});
  entries.push_back({std::string(gguf_tokens_key), std::move(tokens)});
  return entries;
}

std::vector<GgufEntry> gguf_rwkv_tokenizer(const Tokenizer& tokenizer, int64_t size,
                                           const std::string& what) {
  if (tokenizer.name() != "world" && tokenizer.name() != "byte")
    fail(Fault::usage, what, ": expected a World or byte vocabulary for GGUF, found ",
         tokenizer.name());
  std::vector<std::string> tokens{"<s>"};
  for (int32_t id = 1; id < tokenizer.vocabulary_size(); ++id)
    tokens.push_back(gguf_escaped(tokenizer.bytes_of(id)));
  return gguf_rwkv_tokenizer(std::move(tokens), size, what);
}

}  // namespace deltasane
