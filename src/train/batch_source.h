// A corpus as batches: one endless stream of tokens, cut into rows of context + 1; or a piece in
// each row, cut off behind context + 1 tokens, or filled up with token 0, which nobody learns. What
// comes next is a function of the cursor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "corpus/source.h"
#include "train/batch.h"

namespace deltasane::train {

enum class Learned { all, answers };
enum class RowCut { packed, pieces };

class BatchSource {
 public:
  BatchSource(const std::string& description, const Tokenizer& tokenizer, int64_t vocabulary,
              Learned learned, RowCut cut, corpus::Cursor from = {});

  // Fills batch.sequences x batch.time; the targets are the tokens, one further. Fails on an id
  // past the model's vocabulary.
  void next(Batch& batch);
  corpus::Cursor cursor() const { return stream_->cursor(); }

 private:
  // Fills one row; 1 in `wanted` for what should be learned.
  void read_piece(std::span<int32_t> row, std::span<uint8_t> wanted);

  std::unique_ptr<corpus::Source> source_;
  const Tokenizer& tokenizer_;
  std::optional<corpus::TokenStream> stream_;
  int64_t vocabulary_;
  Learned learned_;
  RowCut cut_;
};

}  // namespace deltasane::train
