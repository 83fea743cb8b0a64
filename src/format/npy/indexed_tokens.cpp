#include "format/npy/indexed_tokens.h"

#include <cstring>

#include "base/checked.h"
#include "base/io/byte_reader.h"

namespace deltasane {
namespace {

StoredType token_type(uint8_t code, const ByteReader& in) {
  switch (code) {
    case 1:
      return StoredType::u8;
    case 2:
      return StoredType::i8;
    case 3:
      return StoredType::i16;
    case 4:
      return StoredType::i32;
    case 5:
      return StoredType::i64;
    case 8:
      return StoredType::u16;
    default:
      in.reject("token type: expected 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64) or 8 (u16), found ",
                int(code), code == 6 || code == 7 ? ", floating-point numbers" : "");
  }
}

template <class T>
T element(std::span<const std::byte> array, int64_t number) {
  T value;
  std::memcpy(&value, array.data() + size_t(number) * sizeof value, sizeof value);
  return value;
}

}  // namespace

IndexedTokens::IndexedTokens(std::span<const std::byte> index, const std::string& index_name,
                             std::span<const std::byte> tokens, const std::string& tokens_name) {
  ByteReader in(index, index_name);
  if (index.size() < indexed_magic.size() ||
      in.text(indexed_magic.size(), "magic") != indexed_magic)
    fail(Fault::file, index_name,
         ": at byte 0: expected an index of tokens (.idx, MMIDIDX), found another file");
  if (const auto version = in.number<uint64_t>("version"); version != 1)
    in.reject("expected version 1 of the index, found ", version);
  tokens_.type = token_type(in.number<uint8_t>("token type"), in);
  const auto items = in.number<uint64_t>("number of items");
  const auto documents = in.number<uint64_t>("number of documents");
  const uint64_t rest = checked_add(checked_multiply(items, 12, index_name),
                                    checked_multiply(documents, 8, index_name), index_name);
  if (rest != in.remaining())
    in.reject("expected ", rest, " bytes for ", items, " items and ", documents,
              " documents, found ", in.remaining());
  sizes_ = in.take(4 * items, "sizes");
  begins_ = in.take(8 * items, "begins");
  items_ = int64_t(items);
  token_bytes_ = layout_of(tokens_.type).bytes;

  uint64_t end = 0;
  for (int64_t i = 0; i < items_; ++i) {
    const auto size = element<int32_t>(sizes_, i);
    const auto begin = element<int64_t>(begins_, i);
    if (size < 0 || begin < 0 || uint64_t(begin) != end)
      fail(Fault::file, index_name, ": item ", i, ": expected it to begin at byte ", end,
           ", after the previous item, and a size of at least 0; found byte ", begin, " and size ",
           size);
    end = checked_add(end, uint64_t(size) * uint64_t(token_bytes_), index_name);
  }
  if (end != tokens.size())
    fail(Fault::file, tokens_name, ": expected ", end, " bytes, as ", index_name, " says, found ",
         tokens.size(), "; one of the two is truncated, or they do not belong together");
  tokens_.path = tokens_name;
  tokens_.bytes = tokens;
  tokens_.shape = Shape{int64_t(end) / token_bytes_};
}

fs::path indexed_stem(const fs::path& path) {
  fs::path stem = path;
  if (path.extension() == ".bin" || path.extension() == ".idx") stem.replace_extension();
  return stem;
}

IndexedTokens IndexedTokens::open(const fs::path& path) {
  const fs::path stem = indexed_stem(path);
  const auto index = std::make_shared<const MappedFile>(stem.string() + ".idx");
  const auto tokens = std::make_shared<const MappedFile>(stem.string() + ".bin");
  IndexedTokens opened(index->bytes(), index->path().string(), tokens->bytes(),
                       tokens->path().string());
  opened.index_file_ = index;
  opened.tokens_.file = tokens;
  return opened;
}

IndexedTokens::Item IndexedTokens::item(int64_t number) const {
  require(number >= 0 && number < items_, "IndexedTokens::item is one of the items");
  return {element<int64_t>(begins_, number) / token_bytes_, element<int32_t>(sizes_, number)};
}

}  // namespace deltasane
