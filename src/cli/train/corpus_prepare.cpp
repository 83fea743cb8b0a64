#include "cli/train/corpus_prepare.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/threads.h"
#include "cli/counted.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_line.h"
#include "corpus/description.h"
#include "corpus/source.h"
#include "format/npy/indexed_tokens.h"
#include "format/npy/npy.h"
#include "format/tokenizer/find_tokenizer.h"

namespace deltasane::cli {
namespace {

using SummaryJson = nlohmann::ordered_json;

constexpr int32_t padding = 0;

struct PrepareOptions {
  std::vector<std::string> inputs;
  std::vector<double> weights;
  std::string tokenizer, out, order = "shuffled", too_long = "drop";
  uint64_t length = 4097, seed = 1, rows = 0;
  bool json = false;
};

// A summary of the rows that were written.
struct Prepared {
  uint64_t rows = 0, cut = 0, tokens = 0;
  std::string hash;
};

// One row after another, into an array of equal rows or a pair of files.
class TokenFile {
 public:
  TokenFile(const PrepareOptions& options, const Tokenizer& tokenizer) : length_(options.length) {
    const std::string end = fs::path(options.out).extension().string();
    if (end == ".npy")
      array_.emplace(options.out, StoredType::i32, Shape{int64_t(options.length)});
    else if (end == ".bin" || end == ".idx")
      pair_.emplace(options.out, tokenizer.vocabulary_size());
    else
      fail(Fault::usage, "--out: expected FILE.npy, FILE.bin or FILE.idx, found ", options.out);
    XXH64_reset(&hash_, 0);
  }

  void append(std::vector<int32_t> row) {
    if (array_)
      row.resize(length_, padding);
    else
      row.push_back(padding);  // the end of a document
    XXH64_update(&hash_, row.data(), row.size() * sizeof(int32_t));
    if (array_)
      array_->append(row);
    else
      pair_->append(row);
  }

  void commit() {
    if (array_)
      array_->commit();
    else
      pair_->commit();
  }

  bool is_array() const { return array_.has_value(); }
  std::string hash() const { return fmt::format("{:016x}", XXH64_digest(&hash_)); }

 private:
  size_t length_;
  std::optional<NpyWriter> array_;
  std::optional<IndexedTokensWriter> pair_;
  XXH64_state_t hash_;
};

std::string rows_source(const PrepareOptions& options, const std::string& paths) {
  const bool drops = options.too_long == "drop";
  return cat("rows:", corpus::quoted_if_needed(paths),
             ",tokenizer=", corpus::quoted_if_needed(options.tokenizer),
             ",length=", drops ? options.length : 0, ",order=", options.order,
             ",seed=", options.seed);
}

// The same rows in the same order, as a source that train reads.
std::string source_of(const PrepareOptions& options) {
  std::string joined, mixture;
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    joined += cat(i ? "\n" : "", options.inputs[i]);
    if (!options.weights.empty())
      mixture += cat(i ? "+" : "mixed:", options.weights[i], "*(",
                     rows_source(options, options.inputs[i]), ")");
  }
  if (options.weights.empty()) return rows_source(options, joined);
  return cat(mixture, ",seed=", options.seed, ",by=pieces");
}

void write_rows(const PrepareOptions& options, const corpus::Source& source,
                const Tokenizer& tokenizer, uint64_t rows, TokenFile& file, Prepared& prepared,
                ProgressLine& line) {
  constexpr uint64_t at_once = 256;
  ThreadPool pool;
  for (uint64_t done = 0; done < rows; done += at_once) {
    if (interrupts() > 0)
      throw Interrupted(cat(options.out, ": stopped after ", done, " of ", rows,
                            " rows; nothing was written. Run the command again"));
    if (line.due()) line.show(fmt::format("{}: {} of {} rows", options.out, done, rows));
    std::vector<std::vector<int32_t>> block(std::min(at_once, rows - done));
    pool.parallel(int64_t(block.size()), [&](int64_t i) {
      block[size_t(i)] = tokenizer.encode(source.piece(done + uint64_t(i)).text);
    });
    for (std::vector<int32_t>& row : block) {
      if (row.size() > options.length) {
        if (options.too_long == "drop")
          fail(Fault::file, source.description(), ": expected rows of at most ", options.length,
               " tokens, found one of ", row.size(), ". Remove the .index files beside the data");
        row.resize(options.length);
        ++prepared.cut;
      }
      prepared.tokens += row.size();
      file.append(std::move(row));
    }
  }
  prepared.rows = rows;
}

void print_summary(const PrepareOptions& options, const SummaryJson& summary, bool array) {
  const auto number = [&](const char* name) { return summary[name].get<int64_t>(); };
  fmt::print(
      "{}: {}, {}{}\n", options.out, counted(number("rows"), "row"),
      counted(number("tokens"), "token"),
      array ? fmt::format(", {:.1f} % padding", 100 * summary["padding"].get<double>()) : "");
  for (const SummaryJson& source : summary["sources"]) {
    fmt::print("{}: {}, {} kept\n", source["source"].get<std::string>(),
               counted(source["rows"].get<int64_t>(), "row"), source["kept"].get<uint64_t>());
    for (const auto& [reason, count] : source["dropped"].items())
      fmt::print("  dropped, {:<16}{:>10}\n", reason, count.get<uint64_t>());
    if (const auto files = source["parquet_without_checksums"].get<uint64_t>())
      fmt::print("  {} without checksums of pages: damage in {} may not be noticed\n",
                 counted(int64_t(files), "Parquet file"), files == 1 ? "it" : "them");
  }
  if (number("cut"))
    fmt::print("  cut to {} {:>10}\n", counted(int64_t(options.length), "token"), number("cut"));
  fmt::print(
      "Train on it with      rows = \"pieces\", source = {}\nor without it, with   source = {}\n",
      summary["train"].dump(), summary["source"].dump());
}

int prepare(const PrepareOptions& options) {
  if (!options.weights.empty() && options.weights.size() != options.inputs.size())
    fail(Fault::usage, "--weights: expected one for each of ", options.inputs.size(),
         " inputs, found ", options.weights.size());
  const auto tokenizer = open_vocabulary(options.tokenizer);
  count_interrupts({SIGTERM, SIGINT});  // the file that is being written is removed
  TokenFile file(options, *tokenizer);
  ProgressLine line(ProgressLine::First::after_a_pause);
  const auto progress = opening_progress(line);
  const auto source = corpus::open_source(
      source_of(options), [&](const std::string& name, uint64_t done, uint64_t all) {
        if (interrupts() > 0) throw Interrupted(cat(name, ": stopped; nothing was written"));
        progress(name, done, all);
      });
  const uint64_t rows = options.rows ? options.rows : *source->pieces_before_repeat();
  Prepared prepared;
  write_rows(options, *source, *tokenizer, rows, file, prepared, line);
  file.commit();
  line.end();

  SummaryJson sources = SummaryJson::array();
  for (const corpus::Source* part : source->parts()) {
    const corpus::RowCounts counts = *part->row_counts();
    sources.push_back({{"source", part->description()},
                       {"rows", counts.rows},
                       {"kept", counts.kept},
                       {"dropped", counts.dropped},
                       {"parquet_without_checksums", counts.without_checksums}});
  }
  const double room = double(prepared.rows) * double(options.length);
  const std::string train =
      file.is_array()
          ? cat("npy:", corpus::quoted_if_needed(options.out), ",padding=", padding)
          : cat("binidx:", corpus::quoted_if_needed(indexed_stem(options.out).string()));
  const SummaryJson summary{{"out", options.out},
                            {"source", source->description()},
                            {"train", train},
                            {"tokenizer", tokenizer->name()},
                            {"rows", prepared.rows},
                            {"length", options.length},
                            {"tokens", prepared.tokens},
                            {"padding", 1 - double(prepared.tokens) / std::max(room, 1.0)},
                            {"cut", prepared.cut},
                            {"sources", sources},
                            {"xxh64", file.hash()}};
  if (options.json)
    fmt::print("{}\n", summary.dump(2));
  else
    print_summary(options, summary, file.is_array());
  return 0;
}

}  // namespace

void describe_corpus_prepare(CLI::App& corpus,
                             const std::shared_ptr<std::function<int()>>& chosen) {
  auto options = std::make_shared<PrepareOptions>();
  CLI::App& app = *corpus.add_subcommand("prepare", "data sets to one file of tokens");
  app.add_option("IN", options->inputs,
                 "files .jsonl, .jsonl.zst, .jsonl.gz or .parquet, or folders of them; columns: "
                 "see docs/corpus.md")
      ->required();
  app.add_option("--tokenizer", options->tokenizer, tokenizer_help)
      ->required();
  app.add_option("--out", options->out,
                 "FILE.npy: rows filled up with 0; or FILE.bin, with FILE.idx: rows behind one "
                 "another, with 0 behind each")
      ->required();
  app.add_option("--length", options->length, "the most tokens of a row (default 4097)")
      ->check(between(1, 1 << 30));
  app.add_option("--long", options->too_long, "drop longer rows (default), or cut them off")
      ->check(one_of({"drop", "cut"}));
  app.add_option("--order", options->order, "shuffled (default), or as in the files")
      ->check(one_of({"shuffled", "file"}));
  app.add_option("--seed", options->seed, "of the order (default 1)")
      ->check(whole_number(0, 64));
  app.add_option("--weights", options->weights,
                 "a share of the rows for each IN, such as 3,1; without them all rows of all")
      ->delimiter(',')
      ->check(above(0));
  app.add_option("--rows", options->rows,
                 "so many rows (default: until the first one would come again)")
      ->check(whole_number(1));
  app.add_flag("--json", options->json, "print the summary as JSON");
  app.footer(
      "Examples:\n"
      "  deltasane corpus prepare chats/ --tokenizer rwkv_vocab_v20230424.txt --out train.npy\n"
      "  deltasane corpus prepare math.parquet chat.jsonl.zst --weights 3,1 \\\n"
      "    --tokenizer rwkv_vocab_v20230424.txt --length 1025 --out mixed.npy --json");
  app.callback([options, chosen] { *chosen = [options] { return prepare(*options); }; });
}

}  // namespace deltasane::cli
