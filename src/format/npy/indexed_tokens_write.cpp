#include "base/io/byte_writer.h"
#include "format/npy/indexed_tokens.h"

namespace deltasane {

IndexedTokensWriter::IndexedTokensWriter(const fs::path& path, int32_t vocabulary)
    : stem_(indexed_stem(path)),
      tokens_(stem_.string() + ".bin"),
      index_(stem_.string() + ".idx"),
      narrow_(vocabulary <= 65536) {}

void IndexedTokensWriter::append(std::span<const int32_t> item) {
  begins_.push_back(int64_t(tokens_.size()));
  sizes_.push_back(int32_t(item.size()));
  if (!narrow_) return tokens_.write(std::as_bytes(item));
  std::vector<uint16_t> words;
  for (const int32_t token : item) {
    require(token >= 0 && token < 65536, "tokens of 16 bits are below 65536");
    words.push_back(uint16_t(token));
  }
  tokens_.write(std::as_bytes(std::span(words)));
}

void IndexedTokensWriter::commit() {
  ByteWriter head;
  head.text(indexed_magic);
  head.number(uint64_t{1});
  head.number(uint8_t(narrow_ ? 8 : 4));
  head.number(uint64_t{sizes_.size()});
  head.number(uint64_t{sizes_.size() + 1});
  index_.write(head.bytes());
  index_.write(std::as_bytes(std::span(sizes_)));
  index_.write(std::as_bytes(std::span(begins_)));
  std::vector<int64_t> documents(sizes_.size() + 1);
  for (size_t i = 0; i < documents.size(); ++i) documents[i] = int64_t(i);
  index_.write(std::as_bytes(std::span(documents)));
  tokens_.commit();
  index_.commit();
}

}  // namespace deltasane
