// A corpus as batches: one endless stream of tokens, cut into rows of context + 1; or a piece in
// each row, cut off behind context + 1 tokens, or filled up with token 0 at its left or right. What
// a row was filled up with is padding, and so is every token with the padding's id: it is not present as an input, and
// nobody learns it as a target. What comes next is a function of the cursor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "corpus/source.h"
#include "model/train/training_batch.h"

namespace deltasane::train {

enum class Learned { all, answers };
enum class RowCut { packed, pieces };
enum class PaddingSide { left, right };

struct RowSettings {
  Learned learned = Learned::all;
  RowCut cut = RowCut::packed;
  int64_t padding = -1;  // an id; -1: none
  PaddingSide side = PaddingSide::left;
};

class BatchSource {
 public:
  BatchSource(const std::string& description, const Tokenizer& tokenizer, int64_t vocabulary,
              const RowSettings& rows, corpus::Cursor from = {});

  // Fills batch.sequences x batch.time; the targets are the tokens, one further. Fails on an id
  // past the model's vocabulary.
  void next(TrainingBatch& batch);
  // Fails where a corpus that comes to an end does so before it has filled so many rows once;
  // `what` says what they are, and which key named the corpus.
  void expect_rows(int64_t rows, int64_t time, const std::string& what) const;
  corpus::Cursor cursor() const { return stream_->cursor(); }
  const corpus::Source& source() const { return *source_; }

 private:
  struct Filled {
    size_t begin, end;  // the tokens of a row that are the piece's
  };
  // Fills one row, with 1 in `wanted` for what the corpus marks.
  Filled read_piece(std::span<int32_t> row, std::span<uint8_t> wanted);

  std::unique_ptr<corpus::Source> source_;
  const Tokenizer& tokenizer_;
  std::optional<corpus::TokenStream> stream_;
  int64_t vocabulary_;
  RowSettings rows_;
};

}  // namespace deltasane::train
