// A corpus as batches: one endless stream of tokens, cut into rows of context + 1. What comes next
// is a function of the cursor.
#pragma once

#include <memory>

#include "corpus/source.h"
#include "train/batch.h"

namespace deltasane::train {

enum class Learned { all, answers };

class BatchSource {
 public:
  BatchSource(const std::string& description, const Tokenizer& tokenizer, int64_t vocabulary,
              Learned learned, corpus::Cursor from = {});

  // Fills batch.sequences x batch.time; the targets are the tokens, one further. Fails on an id
  // past the model's vocabulary.
  void next(Batch& batch);
  corpus::Cursor cursor() const { return stream_.cursor(); }

 private:
  std::unique_ptr<corpus::Source> source_;
  corpus::TokenStream stream_;
  int64_t vocabulary_;
  Learned learned_;
};

}  // namespace deltasane::train
