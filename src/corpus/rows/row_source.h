// Rows of data sets, from .jsonl, .jsonl.zst, .jsonl.gz and .parquet files and folders of them.
//
//   rows:PATH,tokenizer=none,length=0,order=file,seed=1
//
// A row is recognised by its columns (corpus/rows/render.h); one that cannot be used is dropped and
// counted. With a tokenizer (as train names it) and length=N, rows of more than N tokens are dropped
// too. Several paths are separated by \n, in quotes. order=shuffled reshuffles every epoch.
//
//   jsonl:PATH,template=TEMPLATE,...
//
// is the same with a template for each row, which all rows must fit (corpus/rows/jsonl.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "corpus/description.h"
#include "corpus/rows/render.h"
#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_rows(std::string_view rest, const OpeningProgress& progress);

struct RowSettings {
  std::string paths;  // one a line
  std::string tokenizer = "none";
  uint64_t length = 0;  // 0: any
  size_t order = 0;     // in order_names
  uint64_t seed = 1;
  bool every_row = false;  // a row that cannot be used is an error

  // The options that all kinds have.
  void read_order(Options& options);
};

// `description` is that of the source.
std::unique_ptr<Source> make_row_source(const RowSettings& settings,
                                        std::unique_ptr<RowRenderer> renderer,
                                        std::string description, const OpeningProgress& progress);

}  // namespace deltasane::corpus
