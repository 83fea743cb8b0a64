// What was learned about a file of rows when it was read as a whole, kept beside it as .NAME.index:
// where its lines begin, and the length of each row.
//
// The file is untrusted: it is used only where its checksum, the size, the time and the ends of the
// file that it describes are right, and all lines are inside of that file. Else it is made again.
// Where the folder cannot be written, nothing is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/io/file.h"

namespace deltasane::corpus {

struct RowLine {
  uint64_t begin = 0;
  uint32_t size = 0;
};

// The length of each row, under one way to render and to tokenize it.
struct RowLengths {
  uint64_t key = 0;
  std::vector<uint32_t> lengths;
};

struct RowIndex {
  uint64_t rows = 0;
  std::vector<RowLine> lines;       // of a file of plain lines; else none
  std::vector<RowLengths> lengths;  // the last few
};

fs::path index_path(const fs::path& file);
// `bytes` are the file's. None where there is no index, or not a right one.
std::optional<RowIndex> load_index(const fs::path& file, std::span<const std::byte> bytes);
void keep_index(const fs::path& file, std::span<const std::byte> bytes, const RowIndex& index);

}  // namespace deltasane::corpus
