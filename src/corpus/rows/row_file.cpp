#include "corpus/rows/row_file.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "corpus/rows/unpacked_size.h"
#include "format/codec/codec.h"

namespace deltasane::corpus {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// All lines with something in them.
std::vector<RowLine> find_lines(std::string_view text, const fs::path& path) {
  std::vector<RowLine> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos) {
      if (end - at > std::numeric_limits<uint32_t>::max())
        fail(Fault::file, path, ": at byte ", at,
             ": expected lines of less than 4 GiB, found one of ", end - at, " bytes");
      lines.push_back({at, uint32_t(end - at)});
    }
    at = end + 1;
  }
  return lines;
}

}  // namespace

bool is_row_file(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view end : {".jsonl", ".jsonl.zst", ".jsonl.gz", ".parquet"})
    if (name.ends_with(end)) return true;
  return false;
}

RowFile::Kind RowFile::kind_of(const fs::path& path) {
  const std::string end = path.extension().string();
  return end == ".zst"       ? Kind::zstd
         : end == ".gz"      ? Kind::gzip
         : end == ".parquet" ? Kind::parquet
                             : Kind::lines;
}

RowFile::RowFile(const fs::path& path, ParquetFile::Wanted wanted)
    : map_(path), kind_(kind_of(path)), wanted_(std::move(wanted)) {
  std::optional<RowIndex> known = load_index(path, map_.bytes());
  if (kind_ == Kind::parquet) {
    parquet_.emplace(map_.bytes(), path.string());
    for (size_t group = 0; group < parquet_->groups(); ++group)
      add_part(parquet_->group_rows(group));
    if (known && known->rows == parquet_->rows()) index_ = std::move(*known);
    index_.rows = parquet_->rows();
  } else if (known && (kind_ == Kind::lines) == (known->lines.size() == known->rows)) {
    index_ = std::move(*known);
    if (kind_ != Kind::lines) add_part(index_.rows);
  } else if (kind_ == Kind::lines) {
    index_.lines = find_lines(as_text(map_.bytes()), path);
    index_.rows = index_.lines.size();
  } else {
    add_part(0);
    unpack(parts_[0]);
    index_.rows = parts_[0].rows = parts_[0].lines.size();
  }
}

void RowFile::add_part(uint64_t rows) {
  Part part;
  part.first = parts_.empty() ? 0 : parts_.back().first + parts_.back().rows;
  part.rows = rows;
  parts_.push_back(std::move(part));
}

void RowFile::unpack(Part& part) const {
  auto file = std::make_unique<ScratchFile>();
  UnpackedSize size(path(), map_.bytes().size());
  const auto write = [&](std::string_view text) {
    size.add(text.size());
    file->write(text);
  };
  if (kind_ == Kind::parquet)
    parquet_->read_group(size_t(&part - parts_.data()), wanted_, [&](std::string_view row) {
      write(row);
      write("\n");
    });
  else
    decompress_stream(kind_ == Kind::gzip ? Codec::gzip : Codec::zstd, map_.bytes(),
                      path().string(),
                      [&](std::span<const std::byte> piece) { write(as_text(piece)); });
  part.text = file->map();
  part.lines = find_lines(part.text, path());
  part.file = std::move(file);
}

std::string_view RowFile::row(uint64_t number) const {
  require(number < rows(), "a row is one of the file's");
  if (kind_ == Kind::lines) {
    const RowLine& line = index_.lines[number];
    return as_text(map_.bytes()).substr(line.begin, line.size);
  }
  const std::scoped_lock lock(mutex_);
  Part& part = *(std::ranges::upper_bound(parts_, number, {}, &Part::first) - 1);
  if (!part.file) {
    unpack(part);
    if (part.lines.size() != part.rows)
      fail(Fault::file, path(), ": expected ", part.rows, " rows, as ", index_path(path()),
           " says, found ", part.lines.size(), ". Remove that file");
  }
  const RowLine& line = part.lines[number - part.first];
  return part.text.substr(line.begin, line.size);
}

std::string RowFile::place(uint64_t number) const {
  if (kind_ != Kind::lines) return cat(path().string(), ": row ", number + 1);
  const std::string_view before = as_text(map_.bytes()).substr(0, index_.lines[number].begin);
  return cat(path().string(), ":", 1 + std::ranges::count(before, '\n'));
}

const std::vector<uint32_t>* RowFile::lengths(uint64_t key) const {
  for (const RowLengths& known : index_.lengths)
    if (known.key == key) return &known.lengths;
  return nullptr;
}

void RowFile::keep_lengths(uint64_t key, std::vector<uint32_t> lengths) {
  require(lengths.size() == rows(), "every row has a length");
  index_.lengths.push_back({key, std::move(lengths)});
  keep_index(path(), map_.bytes(), index_);
}

}  // namespace deltasane::corpus
