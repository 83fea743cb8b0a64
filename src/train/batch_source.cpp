#include "train/batch_source.h"

#include "base/error.h"

namespace deltasane::train {

BatchSource::BatchSource(const std::string& description, const Tokenizer& tokenizer,
                         int64_t vocabulary, Learned learned, corpus::Cursor from)
    : source_(corpus::open_source(description)),
      stream_(*source_, tokenizer, from),
      vocabulary_(vocabulary),
      learned_(learned) {}

void BatchSource::next(Batch& batch) {
  const size_t time = size_t(batch.time), rows = size_t(batch.rows());
  batch.tokens.resize(rows), batch.targets.resize(rows), batch.weights.resize(rows);
  std::vector<int32_t> row(time + 1);
  std::vector<uint8_t> wanted(time + 1);
  for (size_t at = 0; at < rows; at += time) {
    stream_.read(row, wanted);
    for (const int32_t id : row)
      if (id < 0 || id >= vocabulary_)
        fail(Fault::file, source_->description(), ": expected token ids below ", vocabulary_,
             ", the model's vocabulary, found ", id);
    for (size_t t = 0; t < time; ++t) {
      batch.tokens[at + t] = row[t];
      batch.targets[at + t] = row[t + 1];
      batch.weights[at + t] = learned_ == Learned::all || wanted[t + 1] ? 1.0f : 0.0f;
    }
  }
}

}  // namespace deltasane::train
