#include "corpus/source.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/io/file.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "cli/terminal/terminal.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/terminal/progress_line.h"
#include "cli/train/corpus_prepare.h"
#include "corpus/math/chat.h"
#include "format/npy/npy.h"
#include "format/tokenizer/find_tokenizer.h"
#include "text/utf8.h"

namespace deltasane::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct CorpusOptions {
  std::string source, tokenizer, out, format;
  uint64_t bytes = 0, tokens = 0, problems = 0, skip = 0;
  bool json = false;
};

// Where the bytes go: into a file that appears when it is whole, to the screen, or, when only the
// summary is wanted, nowhere. It remembers how many they were and their hash.
class CorpusSink {
 public:
  explicit CorpusSink(const CorpusOptions& options) : quiet_(options.json) {
    if (!options.out.empty()) file_.emplace(options.out);
    XXH64_reset(&hash_, 0);
  }

  void write(std::string_view text) {
    XXH64_update(&hash_, text.data(), text.size());
    bytes_ += text.size();
    if (!file_ && quiet_) return;
    buffer_ += text;
    if (buffer_.size() >= size_t{1} << 20) flush();
  }

  void finish() {
    flush();
    if (file_) file_->commit();
  }

  uint64_t bytes() const { return bytes_; }
  std::string hash() const { return fmt::format("{:016x}", XXH64_digest(&hash_)); }

 private:
  void flush() {
    if (file_)
      file_->write(buffer_);
    else if (!std::cout.write(buffer_.data(), std::streamsize(buffer_.size())).flush())
      throw OutputError(cat("standard output: cannot write: ", std::strerror(errno)));
    buffer_.clear();
  }

  bool quiet_;
  std::optional<AtomicFile> file_;
  XXH64_state_t hash_;
  std::string buffer_;
  uint64_t bytes_ = 0;
};

void report(const CorpusOptions& options, OrderedJson summary) {
  if (!options.out.empty()) summary["out"] = options.out;
  if (options.json)
    fmt::print("{}\n", summary.dump(2));
  else if (!options.out.empty())
    fmt::print("{}: {} of {}\n", options.out, counted(summary["bytes"].get<int64_t>(), "byte"),
               summary["source"].get<std::string>());
}

// A cut character would make the row unreadable for others.
OrderedJson row_of(const corpus::Piece& piece, const corpus::Source& source) {
  if (!valid_utf8(piece.text))
    fail(Fault::file, source.description(), ": expected UTF-8 text for JSON, found other bytes");
  OrderedJson learned = OrderedJson::array();
  for (const corpus::Span& stretch : piece.learned) learned.push_back({stretch.begin, stretch.end});
  return {{"text", piece.text}, {"learned", learned}};
}

int write_pieces(const CorpusOptions& options, const corpus::Source& source) {
  const auto tokenizer = options.tokenizer.empty() ? nullptr : open_vocabulary(options.tokenizer);
  CorpusSink sink(options);
  uint64_t index = options.skip, bytes = 0, learned = 0;
  for (const uint64_t wanted = options.bytes ? options.bytes : 1000; bytes < wanted; ++index) {
    corpus::Piece piece = source.piece(index);
    if (!piece.tokens.empty()) {
      if (!tokenizer)
        fail(Fault::usage, "corpus: expected --tokenizer for a source of tokens, found none");
      piece.text = tokenizer->decode(piece.tokens);
      piece.learned = {{0, piece.text.size()}};
    }
    for (const corpus::Span& stretch : piece.learned) learned += stretch.end - stretch.begin;
    bytes += piece.text.size();
    if (index - options.skip > 1'000'000 && bytes == 0)
      fail(Fault::file, source.description(), ": expected text, found empty pieces only");
    sink.write(options.format == "jsonl" ? row_of(piece, source).dump() + "\n" : piece.text);
  }
  sink.finish();
  report(options, {{"source", source.description()},
                   {"pieces", index - options.skip},
                   {"bytes", sink.bytes()},
                   {"text_bytes", bytes},
                   {"learned_bytes", learned},
                   {"xxh64", sink.hash()}});
  return 0;
}

int write_problems(const CorpusOptions& options) {
  constexpr std::string_view kind = "math-chat";
  const std::string_view source = options.source;
  if (source != kind && !source.starts_with(cat(kind, ":")))
    fail(Fault::usage, "--problems: expected a math-chat source, found ", source);
  const corpus::MathOptions math =
      corpus::math_options(source.substr(std::min(source.size(), kind.size() + 1)));
  CorpusSink sink(options);
  for (uint64_t i = 0; i < options.problems; ++i) {
    const corpus::Problem problem = corpus::math_problem(math, options.skip + i);
    if (options.format == "text")
      sink.write(cat(corpus::chat_prompt(problem.question), " ", problem.solution, "\n\n"));
    else
      sink.write(OrderedJson{{"question", problem.question},
                             {"solution", problem.solution},
                             {"answer", problem.answer},
                             {"family", problem.family},
                             {"level", problem.level},
                             {"language", problem.language}}
                     .dump() +
                 "\n");
  }
  sink.finish();
  report(options, {{"source", cat("math-chat:", corpus::describe(math))},
                   {"problems", options.problems},
                   {"bytes", sink.bytes()},
                   {"xxh64", sink.hash()}});
  return 0;
}

int write_tokens(const CorpusOptions& options, const corpus::Source& source) {
  if (options.tokenizer.empty())
    fail(Fault::usage, "--tokens: expected --tokenizer FILE or --tokenizer byte, found none");
  if (options.out.empty() && !options.json)
    fail(Fault::usage, "--tokens: expected --out FILE.npy, found none");
  const auto tokenizer = open_vocabulary(options.tokenizer);
  std::optional<NpyWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out, StoredType::i32, Shape{});
  corpus::TokenStream stream(source, *tokenizer, {options.skip, 0});
  XXH64_state_t hash;
  XXH64_reset(&hash, 0);
  uint64_t learned = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> flags;
  for (uint64_t done = 0; done < options.tokens; done += ids.size()) {
    ids.resize(size_t(std::min<uint64_t>(options.tokens - done, 65536)));
    flags.resize(ids.size());
    stream.read(ids, flags);
    for (const uint8_t flag : flags) learned += flag;
    XXH64_update(&hash, ids.data(), ids.size() * sizeof(int32_t));
    if (writer) writer->append(ids);
  }
  if (writer) writer->commit();
  report(options, {{"source", source.description()},
                   {"tokenizer", tokenizer->name()},
                   {"tokens", options.tokens},
                   {"learned_tokens", learned},
                   {"bytes", options.tokens * sizeof(int32_t)},
                   {"next_piece", stream.cursor().piece},
                   {"next_token", stream.cursor().token},
                   {"xxh64", fmt::format("{:016x}", XXH64_digest(&hash))}});
  return 0;
}

int make_corpus(const CorpusOptions& options) {
  if (options.source.empty())
    fail(Fault::usage, "corpus: expected a SOURCE such as math-chat:, or prepare, found none");
  if ((options.bytes > 0) + (options.tokens > 0) + (options.problems > 0) > 1)
    fail(Fault::usage, "corpus: expected one of --bytes, --tokens and --problems, found several");
  if ((options.format == "npy") != (options.tokens > 0) && !options.format.empty())
    fail(Fault::usage,
         "corpus: expected --format npy with --tokens and only there, found --format ",
         options.format);
  if (options.problems > 0) return write_problems(options);
  ProgressLine line(ProgressLine::First::after_a_pause);
  const auto source = corpus::open_source(options.source, opening_progress(line));
  line.end();
  return options.tokens > 0 ? write_tokens(options, *source) : write_pieces(options, *source);
}

}  // namespace

const Command corpus_text{
    "corpus", "endless text from a seed or from files", [](CLI::App& app) {
      auto options = std::make_shared<CorpusOptions>();
      const auto prepare = std::make_shared<std::function<int()>>();
      describe_corpus_prepare(app, prepare);
      app.add_option("SOURCE", options->source,
                     "math-chat:, prose:PATH, text:PATH, rows:PATH, jsonl:PATH, npy:PATH, "
                     "binidx:PATH or mixed:0.7*(SOURCE)+0.3*(SOURCE), with options; a PATH is relative "
                     "to this folder; see "
                     "docs/corpus.md");
      app.add_option("--bytes", options->bytes,
                     "whole pieces until there are so many bytes of text (default 1000)")
          ->check(whole_number(1));
      app.add_option("--tokens", options->tokens, "exactly so many tokens, as an array")
          ->check(whole_number(1));
      app.add_option("--problems", options->problems, "so many problems of math-chat, as JSON rows")
          ->check(whole_number(1));
      app.add_option("--skip", options->skip, "begin behind so many pieces")
          ->check(whole_number(0));
      app.add_option("--tokenizer", options->tokenizer, tokenizer_help);
      app.add_option("--out", options->out, "a file, replaced when it is whole");
      app.add_option("--format", options->format,
                     "text, jsonl (text and learned stretches; problems by default) or npy (with "
                     "--tokens)")
          ->check(one_of({"text", "jsonl", "npy"}));
      app.add_flag("--json", options->json, "print a summary, and nothing else, as JSON");
      app.footer(
          "Examples, the third in the repository's folder, where README.md is:\n"
          "  deltasane corpus math-chat:seed=1,level=1-2,language=both\n"
          "  deltasane corpus math-chat:split=held-out --problems 100 --out test.jsonl\n"
          "  deltasane corpus 'mixed:0.7*(math-chat:)+0.3*(prose:README.md)' --bytes 1000000 \\\n"
          "    --out mixed.txt\n"
          "  deltasane corpus math-chat: --tokens 1000000 --tokenizer byte --out tokens.npy\n"
          "  deltasane corpus prepare chats/ --tokenizer rwkv_vocab_v20230424.txt --out train.npy");
      return [options, prepare] { return *prepare ? (*prepare)() : make_corpus(*options); };
    }};

}  // namespace deltasane::cli
