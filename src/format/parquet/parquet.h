// Parquet files: columns of flat values, groups and lists of them, given as rows of JSON.
//
// Read are PLAIN, dictionaries, RLE and the DELTA encodings; data pages of both versions, with
// their checksums; snappy, gzip, zstd and lz4 where the build has the library. Integers, floats
// (NaN and infinities as null), truth values and texts are read; another type, encoding or codec
// in a column that is read is an error that names it. Rejected: what does not fit the file, columns
// that overlap, more rows than the bytes can hold, pages over 256 MiB.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"
#include "format/parquet/schema.h"

namespace deltasane {

class ParquetFile {
 public:
  // `bytes` must outlive it, unless it was opened by path.
  ParquetFile(std::span<const std::byte> bytes, std::string name);
  static ParquetFile open(const fs::path& path);

  uint64_t rows() const { return metadata_.rows; }
  size_t groups() const { return metadata_.groups.size(); }
  uint64_t group_rows(size_t group) const { return metadata_.groups.at(group).rows; }
  std::vector<std::string> columns() const;  // the outermost names
  // Whether pages have checksums, by the first page of each column: without them, damage can be read
  // as other values.
  bool has_checksums() const;

  // Whether to read an outermost column.
  using Wanted = std::function<bool(std::string_view column)>;
  // An object with every wanted column; {} where there is none.
  using RowVisitor = std::function<void(std::string_view json)>;
  void read_group(size_t group, const Wanted& wanted, const RowVisitor& visit) const;

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  parquet::FileMetadata metadata_;
  parquet::Node root_;
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace deltasane
