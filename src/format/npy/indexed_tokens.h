// Token files of Megatron and RWKV-LM: X.bin holds the concatenated tokens, X.idx the offset of
// each item.
//
//   X.idx   "MMIDIDX\0\0", u64 version 1, u8 type (1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16),
//           u64 items, u64 documents, i32 sizes[items], i64 begins[items] (bytes in X.bin),
//           i64 documents[documents]; little-endian, without gaps
//
// Items must be contiguous and fill X.bin: a truncated file, or one of another index, is an error.
// The list of documents is ignored: RWKV-LM's writer makes every document an item.
#pragma once

#include "format/npy/npy.h"

namespace deltasane {

class IndexedTokens {
 public:
  // Bytes of both files, with a name for messages of each; they must outlive this.
  IndexedTokens(std::span<const std::byte> index, const std::string& index_name,
                std::span<const std::byte> tokens, const std::string& tokens_name);
  // X, X.bin or X.idx.
  static IndexedTokens open(const fs::path& path);

  struct Item {
    int64_t first = 0, count = 0;  // tokens
  };
  int64_t items() const { return items_; }
  Item item(int64_t number) const;
  const NpyArray& tokens() const { return tokens_; }  // all of them, in one dimension
  std::vector<fs::path> files() const { return {index_file_->path(), tokens_.file->path()}; }

 private:
  std::span<const std::byte> sizes_, begins_;
  int64_t items_ = 0, token_bytes_ = 1;
  NpyArray tokens_;
  std::shared_ptr<const MappedFile> index_file_;
};

// Writes the pair, item by item; each item is a document. commit() replaces X.bin and then X.idx:
// between the two, the pair is one that does not fit together.
class IndexedTokensWriter {
 public:
  // X, X.bin or X.idx. Tokens take 16 bits where the vocabulary does, else 32.
  IndexedTokensWriter(const fs::path& path, int32_t vocabulary);
  void append(std::span<const int32_t> item);
  void commit();

 private:
  fs::path stem_;
  AtomicFile tokens_, index_;
  bool narrow_;
  std::vector<int32_t> sizes_;
  std::vector<int64_t> begins_;
};

// X for X, X.bin and X.idx.
fs::path indexed_stem(const fs::path& path);
inline constexpr std::string_view indexed_magic("MMIDIDX\0\0", 9);

}  // namespace deltasane
