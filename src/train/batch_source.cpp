#include "train/batch_source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace deltasane::train {

BatchSource::BatchSource(const std::string& description, const Tokenizer& tokenizer,
                         int64_t vocabulary, const RowSettings& rows, corpus::Cursor from)
    : source_(corpus::open_source(description)),
      tokenizer_(tokenizer),
      vocabulary_(vocabulary),
      rows_(rows) {
  stream_.emplace(*source_, tokenizer_, from);
}

BatchSource::Filled BatchSource::read_piece(std::span<int32_t> row, std::span<uint8_t> wanted) {
  const uint64_t piece = stream_->cursor().piece;
  size_t count = 0;
  while (count < row.size() && (count == 0 || stream_->cursor().piece == piece)) {
    stream_->read(row.subspan(count, 1), wanted.subspan(count, 1));
    ++count;
  }
  std::ranges::fill(row.subspan(count), 0);
  std::ranges::fill(wanted.subspan(count), uint8_t{0});
  const size_t begin = rows_.side == PaddingSide::left ? row.size() - count : 0;
  std::ranges::rotate(row, row.end() - std::ptrdiff_t(begin));
  std::ranges::rotate(wanted, wanted.end() - std::ptrdiff_t(begin));
  if (stream_->cursor().piece == piece)
    stream_.emplace(*source_, tokenizer_, corpus::Cursor{piece + 1, 0});
  return {begin, begin + count};
}

void BatchSource::expect_rows(int64_t rows, int64_t time, const std::string& what) const {
  const auto each = uint64_t(rows_.cut == RowCut::pieces ? 1 : time + 1);
  const uint64_t wanted = uint64_t(rows) * each;
  uint64_t found = 0;
  for (const corpus::Source* part : source_->parts()) {
    const std::optional<uint64_t> pieces = part->pieces();
    if (!pieces) return;
    for (uint64_t i = 0; i < *pieces && found < wanted; ++i) {
      const corpus::Piece piece = part->piece(i);
      const size_t tokens =
          piece.tokens.empty() ? tokenizer_.encode(piece.text).size() : piece.tokens.size();
      found += rows_.cut == RowCut::pieces ? uint64_t{tokens > 0} : tokens;
    }
  }
  const char* const unit = rows_.cut == RowCut::pieces ? " pieces" : " tokens";
  if (found < wanted)
    fail(Fault::file, what, " of ", source_->description(), ": expected at least ", wanted, unit,
         " for ", rows, " rows of context ", time, ", found ", found,
         "; give it more to read, or lower optimizer.rows (or sequences and accumulate) or context");
}

void BatchSource::next(TrainingBatch& batch) {
  const size_t time = size_t(batch.time), rows = size_t(batch.rows());
  batch.tokens.resize(rows), batch.targets.resize(rows), batch.weights.resize(rows);
  batch.present.assign(rows, 1);
  std::vector<int32_t> row(time + 1);
  std::vector<uint8_t> wanted(time + 1);
  for (size_t at = 0; at < rows; at += time) {
    Filled filled{0, row.size()};
    if (rows_.cut == RowCut::pieces)
      filled = read_piece(row, wanted);
    else
      stream_->read(row, wanted);
    const auto is_present = [&](size_t t) {
      return t >= filled.begin && t < filled.end && row[t] != rows_.padding;
    };
    for (const int32_t id : row)
      if (id < 0 || id >= vocabulary_)
        fail(Fault::file, source_->description(), ": expected token ids below ", vocabulary_,
             ", the model's vocabulary, found ", id);
    for (size_t t = 0; t < time; ++t) {
      batch.tokens[at + t] = row[t];
      batch.targets[at + t] = row[t + 1];
      const bool learned = rows_.learned == Learned::all || wanted[t + 1] != 0;
      batch.weights[at + t] = learned && is_present(t + 1) ? 1.0f : 0.0f;
      batch.present[at + t] = is_present(t);
    }
  }
  if (std::ranges::find(batch.present, 0) == batch.present.end()) batch.present.clear();
}

}  // namespace deltasane::train
