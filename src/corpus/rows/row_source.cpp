#include "corpus/rows/row_source.h"

#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "corpus/files_below.h"
#include "corpus/rows/row_file.h"
#include "corpus/shuffle.h"
#include "format/tokenizer/find_tokenizer.h"

namespace deltasane::corpus {
namespace {

// Stands for a dropped row in a list of lengths; below these, it is a length.
constexpr uint32_t first_drop = 0xFFFF'FF00u;

uint64_t hash_of(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

// What lengths depend on: how rows are rendered, and the vocabulary.
uint64_t lengths_key(const RowRenderer& renderer, const std::string& tokenizer) {
  const bool file = tokenizer != "none" && tokenizer != "byte";
  return hash_of(cat(renderer.identity(), "\n", file ? "file" : tokenizer, "\n",
                     file ? hash_of(read_file(tokenizer)) : 0));
}

std::vector<fs::path> row_files(const std::string& paths) {
  std::vector<fs::path> files;
  for (size_t at = 0; at <= paths.size();) {
    const size_t end = std::min(paths.find('\n', at), paths.size());
    const fs::path path = paths.substr(at, end - at);
    if (fs::is_directory(path)) {
      const size_t before = files.size();
      for (const fs::path& file : files_below(path))
        if (is_row_file(file)) files.push_back(file);
      if (files.size() == before)
        fail(Fault::file, path,
             ": expected files .jsonl, .jsonl.zst, .jsonl.gz or .parquet in it, found none");
    } else {
      files.push_back(path);
    }
    at = end + 1;
  }
  return files;
}

// Renders and tokenizes every row, on all processors.
class RowMeasure {
 public:
  RowMeasure(const RowRenderer& renderer, const Tokenizer* tokenizer,
             const OpeningProgress& progress)
      : renderer_(renderer), tokenizer_(tokenizer), progress_(progress) {}

  std::vector<uint32_t> lengths(const RowFile& file) {
    constexpr uint64_t block = 64, blocks_at_once = 64;
    if (!pool_) pool_ = std::make_unique<ThreadPool>();
    std::vector<uint32_t> lengths(file.rows());
    for (uint64_t done = 0; done < file.rows(); done += block * blocks_at_once) {
      if (progress_) progress_(file.path().string(), done, file.rows());
      const uint64_t rows = std::min(file.rows() - done, block * blocks_at_once);
      pool_->parallel(int64_t((rows + block - 1) / block), [&](int64_t i) {
        const uint64_t first = done + uint64_t(i) * block;
        for (uint64_t row = first; row < std::min(first + block, done + rows); ++row)
          lengths[row] = length_of(file.row(row));
      });
    }
    if (progress_) progress_(file.path().string(), file.rows(), file.rows());
    return lengths;
  }

 private:
  uint32_t length_of(std::string_view row) const {
    const RenderedRow rendered = renderer_.render(row);
    if (rendered.dropped) return first_drop + uint32_t(*rendered.dropped);
    const size_t length =
        tokenizer_ ? tokenizer_->encode(rendered.piece.text).size() : rendered.piece.text.size();
    return uint32_t(std::min<size_t>(length, first_drop - 1));
  }

  const RowRenderer& renderer_;
  const Tokenizer* tokenizer_;
  const OpeningProgress& progress_;
  std::unique_ptr<ThreadPool> pool_;
};

class RowSource final : public Source {
 public:
  RowSource(const RowSettings& settings, std::unique_ptr<RowRenderer> renderer,
            std::string description, const OpeningProgress& progress)
      : settings_(settings), renderer_(std::move(renderer)), description_(std::move(description)) {
    std::unique_ptr<Tokenizer> tokenizer;
    if (settings.tokenizer != "none")
      tokenizer = open_vocabulary(settings.tokenizer);
    else if (settings.length > 0)
      fail(Fault::usage,
           "rows: length: expected tokenizer=FILE or tokenizer=byte with it, found none");
    const uint64_t key = lengths_key(*renderer_, settings.tokenizer);
    RowMeasure measure(*renderer_, tokenizer.get(), progress);
    for (const fs::path& path : row_files(settings.paths)) {
      files_.push_back(std::make_unique<RowFile>(
          path, [this](std::string_view column) { return renderer_->wants(column); }));
      RowFile& file = *files_.back();
      if (!file.lengths(key)) file.keep_lengths(key, measure.lengths(file));
      keep_rows(*file.lengths(key));
      counts_.without_checksums += file.lacks_checksums();
    }
    if (kept_.empty())
      fail(Fault::file, shown_paths(), ": expected rows, found an empty corpus", dropped_text());
  }

  Piece piece(uint64_t index) const override {
    const uint64_t number = settings_.order == 1
                                ? shuffled_epochs(index, kept_.size(), settings_.seed)
                                : index % kept_.size();
    const Kept& kept = kept_[number];
    const RowFile& file = *files_[kept.file];
    RenderedRow rendered = renderer_->render(file.row(kept.row));
    if (rendered.dropped)
      fail(Fault::file, file.place(kept.row), ": ", rendered.found, "; ",
           index_path(file.path()).string(), " says otherwise. Remove that file");
    return std::move(rendered.piece);
  }

  std::optional<uint64_t> pieces() const override { return kept_.size(); }
  std::optional<RowCounts> row_counts() const override { return counts_; }
  std::string description() const override { return description_; }
  std::vector<fs::path> files() const override {
    std::vector<fs::path> all;
    for (const auto& file : files_) all.push_back(file->path());
    return all;
  }

 private:
  struct Kept {
    uint32_t file;
    uint64_t row;
  };

  void keep_rows(const std::vector<uint32_t>& lengths) {
    const auto file = uint32_t(files_.size() - 1);
    counts_.rows += lengths.size();
    for (uint64_t row = 0; row < lengths.size(); ++row) {
      const uint32_t length = lengths[row];
      if (length >= first_drop) {
        if (settings_.every_row) reject(*files_[file], row);
        const uint32_t reason = length - first_drop;
        ++counts_.dropped[std::string(reason < drop_count ? name_of(Drop(reason)) : "unknown")];
      } else if (settings_.length > 0 && length > settings_.length) {
        ++counts_.dropped[std::string(name_of(Drop::too_long))];
      } else {
        kept_.push_back({file, row});
      }
    }
    counts_.kept = kept_.size();
  }

  [[noreturn]] void reject(const RowFile& file, uint64_t row) const {
    fail(Fault::file, file.place(row), ": ", renderer_->render(file.row(row)).found);
  }

  std::string shown_paths() const { return settings_.paths.substr(0, settings_.paths.find('\n')); }

  std::string dropped_text() const {
    std::string text;
    for (const auto& [reason, count] : counts_.dropped)
      text += cat(text.empty() ? "; dropped: " : ", ", count, " ", reason);
    return text;
  }

  RowSettings settings_;
  std::unique_ptr<RowRenderer> renderer_;
  std::string description_;
  std::vector<std::unique_ptr<RowFile>> files_;
  std::vector<Kept> kept_;
  RowCounts counts_;
};

}  // namespace

void RowSettings::read_order(Options& options) {
  order = options.choice("order", 0, order_names);
  seed = options.number("seed", 1, 0, ~uint64_t{0});
}

std::unique_ptr<Source> make_row_source(const RowSettings& settings,
                                        std::unique_ptr<RowRenderer> renderer,
                                        std::string description, const OpeningProgress& progress) {
  return std::make_unique<RowSource>(settings, std::move(renderer), std::move(description),
                                     progress);
}

std::unique_ptr<Source> open_rows(std::string_view rest, const OpeningProgress& progress) {
  Options options("rows", rest, Options::Subject::required);
  RowSettings settings;
  settings.paths = options.subject();
  settings.tokenizer = options.text("tokenizer", "none");
  settings.length = options.number("length", 0, 0, uint64_t{1} << 30);
  settings.read_order(options);
  options.done();
  std::string description =
      cat("rows:", quoted_if_needed(settings.paths),
          ",tokenizer=", quoted_if_needed(settings.tokenizer), ",length=", settings.length,
          ",order=", order_names[settings.order], ",seed=", settings.seed);
  return make_row_source(settings, recognising_renderer(), std::move(description), progress);
}

}  // namespace deltasane::corpus
