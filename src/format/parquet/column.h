// One column of one row group as entries: a value or its absence, with the levels that place it in
// lists and groups. A page is unpacked when its first entry is needed.
#pragma once

#include <optional>

#include "format/parquet/schema.h"
#include "format/parquet/values.h"

namespace deltasane::parquet {

struct Levels {
  int definition = 0, repetition = 0;
};

class ColumnReader {
 public:
  // `file` must outlive it. `title` names file and column in errors.
  ColumnReader(std::span<const std::byte> file, const ColumnChunk& chunk, const Node& leaf,
               std::string title);
  ColumnReader(const ColumnReader&) = delete;
  ColumnReader& operator=(const ColumnReader&) = delete;

  // The levels of the entry that comes next; none behind the last one.
  std::optional<Levels> peek();
  // Steps over an entry that has no value.
  void skip();
  // The value of the next entry, whose definition level must be the leaf's.
  Value take();

  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const {
    fail(Fault::file, title_, ": ", part...);
  }

 private:
  void next_page();
  void read_dictionary(const PageHeader& header, std::span<const std::byte> packed);
  void read_data(const PageHeader& header, std::span<const std::byte> packed);
  RleReader levels(ByteReader& in, int highest, Encoding encoding);
  void check_level(uint32_t level, int highest) const;

  std::string title_;
  ByteReader in_;
  Codec codec_;
  PhysicalType type_;
  int definition_, repetition_;
  uint64_t entries_left_;   // of the chunk, in pages that follow
  uint64_t page_left_ = 0;  // of the page, the one that was peeked at too
  std::optional<Levels> peeked_;
  RleReader definitions_, repetitions_;
  std::optional<Dictionary> dictionary_;
  std::vector<std::byte> room_;
  std::optional<PageValues> values_;
};

}  // namespace deltasane::parquet
