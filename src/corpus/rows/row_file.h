// A file of rows, each as one line of JSON: .jsonl as it lies; .jsonl.zst, .jsonl.gz and .parquet
// unpacked to temporary files, a row group at a time, when a row of it is first read.
//
// Reading rows is safe from several threads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "corpus/rows/row_index.h"
#include "format/parquet/parquet.h"

namespace deltasane::corpus {

// Whether a file in a folder is one, by its name.
bool is_row_file(const fs::path& path);

class RowFile {
 public:
  // A name that is none of the above is taken for lines of JSON. `wanted`: columns of Parquet.
  RowFile(const fs::path& path, ParquetFile::Wanted wanted);

  const fs::path& path() const { return map_.path(); }
  uint64_t rows() const { return index_.rows; }
  // A Parquet file whose pages have no checksums.
  bool lacks_checksums() const { return parquet_ && !parquet_->has_checksums(); }
  std::string_view row(uint64_t number) const;
  // "FILE:LINE" or "FILE: row NUMBER", for messages.
  std::string place(uint64_t number) const;

  // Lengths that are known from before, by their key; null where there are none.
  const std::vector<uint32_t>* lengths(uint64_t key) const;
  // Keeps lengths beside the file, where that can be.
  void keep_lengths(uint64_t key, std::vector<uint32_t> lengths);

 private:
  enum class Kind { lines, zstd, gzip, parquet };
  struct Part {
    uint64_t first = 0, rows = 0;
    std::unique_ptr<ScratchFile> file;  // none: not unpacked yet
    std::string_view text;
    std::vector<RowLine> lines;
  };

  static Kind kind_of(const fs::path& path);
  void add_part(uint64_t rows);
  void unpack(Part& part) const;

  MappedFile map_;
  Kind kind_;
  ParquetFile::Wanted wanted_;
  std::optional<ParquetFile> parquet_;
  RowIndex index_;
  mutable std::mutex mutex_;
  mutable std::vector<Part> parts_;
};

}  // namespace deltasane::corpus
