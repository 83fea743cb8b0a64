#include "train/batch_source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace deltasane::train {

BatchSource::BatchSource(const std::string& description, const Tokenizer& tokenizer,
                         int64_t vocabulary, Learned learned, RowCut cut, corpus::Cursor from)
    : source_(corpus::open_source(description)),
      tokenizer_(tokenizer),
      vocabulary_(vocabulary),
      learned_(learned),
      cut_(cut) {
  stream_.emplace(*source_, tokenizer_, from);
}

void BatchSource::read_piece(std::span<int32_t> row, std::span<uint8_t> wanted) {
  const uint64_t piece = stream_->cursor().piece;
  size_t count = 0;
  while (count < row.size() && (count == 0 || stream_->cursor().piece == piece)) {
    stream_->read(row.subspan(count, 1), wanted.subspan(count, 1));
    if (learned_ == Learned::all) wanted[count] = 1;
    ++count;
  }
  std::ranges::fill(row.subspan(count), 0);
  std::ranges::fill(wanted.subspan(count), uint8_t{0});
  if (stream_->cursor().piece == piece)
    stream_.emplace(*source_, tokenizer_, corpus::Cursor{piece + 1, 0});
}

void BatchSource::next(Batch& batch) {
  const size_t time = size_t(batch.time), rows = size_t(batch.rows());
  batch.tokens.resize(rows), batch.targets.resize(rows), batch.weights.resize(rows);
  std::vector<int32_t> row(time + 1);
  std::vector<uint8_t> wanted(time + 1);
  for (size_t at = 0; at < rows; at += time) {
    if (cut_ == RowCut::pieces) {
      read_piece(row, wanted);
    } else {
      stream_->read(row, wanted);
      if (learned_ == Learned::all) std::ranges::fill(wanted, uint8_t{1});
    }
    for (const int32_t id : row)
      if (id < 0 || id >= vocabulary_)
        fail(Fault::file, source_->description(), ": expected token ids below ", vocabulary_,
             ", the model's vocabulary, found ", id);
    for (size_t t = 0; t < time; ++t) {
      batch.tokens[at + t] = row[t];
      batch.targets[at + t] = row[t + 1];
      batch.weights[at + t] = wanted[t + 1] ? 1.0f : 0.0f;
    }
  }
}

}  // namespace deltasane::train
