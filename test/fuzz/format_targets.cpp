#include <xxhash.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "answers/answers.h"
#include "base/error.h"
#include "base/io/seal.h"
#include "base/json/json_text.h"
#include "format/contents/finite.h"
#include "format/gguf/gguf.h"
#include "format/json_walk.h"
#include "format/npy/indexed_tokens.h"
#include "format/npy/npy.h"
#include "format/pth/pickle.h"
#include "format/pth/pth.h"
#include "format/rwkvcpp.h"
#include "format/safetensors/safetensors.h"
#include "format/tokenizer/gguf_tokenizer.h"
#include "format/tokenizer/tokenizer_json.h"
#include "format/toml_text.h"
#include "fuzz/targets.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/chat/chat_template.h"
#include "text/vocabulary/gguf_tokens.h"
#include "text/vocabulary/world_file.h"

namespace deltasane::fuzz {
namespace {

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Meaning digest(Bytes bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Encodes texts with it, and decodes them again.
Meaning understood(BpeDefinition definition) {
  const BpeTokenizer tokenizer(std::move(definition));
  std::vector<int32_t> ids;
  for (const std::string_view text :
       {"The cat's 12 hats,\n\n  and <|im_end|> more\t", "\xe4\xb8\xad\xe6\x96\x87 \xc3\xa9 e\xcc\x81"}) {
    tokenizer.append_encoded(text, ids);
    tokenizer.append_with_special(text, ids);
  }
  for (const int32_t id : ids) tokenizer.bytes_of(id);
  chat_template_of(tokenizer);
  return digest(std::as_bytes(std::span(ids)));
}

Meaning understood(const TensorFile& file) {
  for (const StoredTensor& tensor : file.tensors())
    if (tensor.type != StoredType::foreign) file.read(tensor);
  find_non_finite(file);
  try {
    if (file.vocabulary()) parse_gguf_tokens(*file.vocabulary());
  } catch (const Error&) {  // a whole file, with the tokens of something else
  }
  try {
    if (file.vocabulary()) understood(bpe_of_gguf(file));
  } catch (const Error&) {
  }
  return file.identity();
}

}  // namespace

Meaning safetensors(Bytes bytes) { return understood(read_safetensors(bytes, "file")); }
Meaning gguf(Bytes bytes) { return understood(read_gguf(bytes, "file")); }
Meaning pth(Bytes bytes) { return understood(read_pth(bytes, "file")); }
Meaning rwkvcpp(Bytes bytes) { return understood(read_rwkvcpp(bytes, "file")); }

Meaning pickle(Bytes bytes) { return read_pickle(bytes, "file").size(); }

Meaning npy(Bytes bytes) {
  const NpyArray array = read_npy(bytes, "file");
  std::vector<float> floats(size_t(array.shape.elements()));
  array.read(0, std::span(floats));
  return digest(array.bytes);
}

// Two files: the length of the first in two bytes, and both.
Meaning indexed_tokens(Bytes bytes) {
  if (bytes.size() < 2) return std::nullopt;
  const size_t length = std::min(size_t(bytes[0]) | size_t(bytes[1]) << 8, bytes.size() - 2);
  const IndexedTokens tokens(bytes.subspan(2, length), "file", bytes.subspan(2 + length), "file");
  int64_t sum = 0;
  for (int64_t i = 0; i < tokens.items(); ++i) sum += tokens.item(i).count;
  std::vector<int32_t> all(static_cast<size_t>(sum));
  tokens.tokens().read(0, std::span(all));
  return digest(std::as_bytes(std::span(all)));
}

Meaning json_walk(Bytes bytes) {
  uint64_t values = 0;
  walk_json(text_of(bytes), "file", {}, [&](const auto& path, const JsonValue&) {
    values += 1 + path.size();
  });
  return values;
}

Meaning json_text(Bytes bytes) {
  const auto value = parse_json<nlohmann::ordered_json>(text_of(bytes), "file");
  const nlohmann::ordered_json copy = value;
  const std::string dumped = copy.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  return digest(std::as_bytes(std::span(dumped)));
}

Meaning vocabulary(Bytes bytes) {
  parse_world_file(text_of(bytes), "file");
  return digest(bytes);
}

Meaning tokenizer_json(Bytes bytes) {
  return understood(parse_tokenizer_json(text_of(bytes), "file"));
}

Meaning toml(Bytes bytes) {
  std::ostringstream written;
  written << parse_toml(text_of(bytes), "file");
  return digest(std::as_bytes(std::span(written.view())));
}

Meaning seal(Bytes bytes) {
  const std::string object = unsealed(text_of(bytes), "file");
  return digest(std::as_bytes(std::span(object)));
}

// The reference answer, a newline, and a response.
Meaning answers(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string_view gold = text.substr(0, line);
  const std::string_view response = text.substr(std::min(line + 1, text.size()));
  deltasane::answers::describe(deltasane::answers::extract(response));
  return uint64_t(deltasane::answers::verify(deltasane::answers::wrapped(gold), response));
}

}  // namespace deltasane::fuzz
