#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/counted.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/text/input_text.h"
#include "format/npy/npy.h"
#include "model/importance.h"
#include "model/log_probability.h"

namespace deltasane::cli {
namespace {

struct ScoreOptions {
  ModelFlags model;
  std::string text, ids, input, logits, importance;
  int64_t context = 0;
  bool json = false, per_token = false;
};

std::vector<int32_t> read_ids(const std::string& path) {
  std::vector<int32_t> ids;
  if (fs::path(path).extension() == ".npy") {
    const NpyArray array = open_npy(path);
    ids.resize(size_t(array.shape.elements()));
    array.read(0, ids);
    return ids;
  }
  const std::string text = input_text(path);
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    if (std::isspace(static_cast<unsigned char>(*at))) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc())
      fail(Fault::file, path, ": expected whitespace-separated token ids, found '",
           std::string(at, std::min<size_t>(8, size_t(end - at))), "' at byte ", at - text.data());
    ids.push_back(id);
    at = next;
  }
  return ids;
}

int score_text(ScoreOptions& options) {
  const int given = !options.text.empty() + !options.ids.empty() + !options.input.empty();
  if (given > 1 || (given == 0 && !has_piped_input()))
    fail(Fault::usage, "score: expected one of --file, --ids and text on standard input, found ",
         given == 0 ? "none" : "several");
  if (given == 0 || !options.input.empty()) options.text = "-";
  expect_writable(options.logits);
  expect_writable(options.importance);
  OpenModel open(options.model);
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<int32_t> ids;
  if (options.ids.empty()) {
    tokenizer =
        open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
    ids = tokenizer->encode_document(input_text(options.text));
  } else {
    ids = read_ids(options.ids);
  }
  if (ids.empty()) fail(Fault::file, "score: expected at least one token, found none");
  if (const auto all = int64_t(ids.size()); !options.importance.empty()) {
    if (all < 2) fail(Fault::file, "--importance: expected a text of 2 tokens or more, found ", all);
    if (options.context == 1)
      fail(Fault::usage, "--importance: expected a --context of 2 tokens or more, found 1");
  }

  std::optional<NpyWriter> writer;
  const int64_t vocabulary = open.model.vocabulary();
  if (!options.logits.empty()) writer.emplace(options.logits, StoredType::f32, Shape{vocabulary});
  kernel::InputSquares squares;
  kernel::Cpu cpu = open.cpu();
  if (!options.importance.empty()) {
    if (open.model.matrices().empty())
      fail(Fault::usage, "--importance: expected a model that lists its matrices, on the device cpu, found ",
           open.model.description().architecture, " on ", to_string(open.model.device()));
    cpu.inputs = &squares;
  }
  SequenceState state = open.model.fresh_state();
  double total = 0;
  int64_t predicted = 0, bytes = 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const int64_t together = writer ? 128 : open.model.prefill_chunk(), all = int64_t(ids.size());
  const int64_t context = options.context > 0 ? options.context : all;
  for (int64_t from = 0, some = 0; from < all; from += some) {
    if (from % context == 0) state = open.model.fresh_state();
    const int64_t end = std::min(all, from - from % context + context);  // of this context
    some = std::min(together, end - from);
    const std::span read(ids.data() + from, size_t(some));
    const int64_t scored = std::min(some, end - from - 1);
    std::vector<double> losses(static_cast<size_t>(scored));
    if (writer) {
      Tensor<float> logits({some, vocabulary});
      open.model.forward({read, &state, Want::all_logits, logits.view()}, cpu);
      writer->append(logits.span());
      for (int64_t t = 0; t < scored; ++t)
        losses[size_t(t)] = -log_probability({logits.data() + t * vocabulary, size_t(vocabulary)},
                                             ids[size_t(from + t + 1)]);
    } else {
      deltasane::score(open.model, read.first(size_t(scored)), {read.data() + 1, size_t(scored)},
                       state, losses, cpu);
    }
    for (int64_t t = 0; t < scored; ++t) {
      const int32_t next = ids[size_t(from + t + 1)];
      const double log_p = -losses[size_t(t)];
      total += log_p;
      ++predicted;
      if (tokenizer) bytes += int64_t(tokenizer->bytes_of(next).size());
      if (options.per_token && options.json) rows.push_back(log_p);
      if (options.per_token && !options.json)
        fmt::print("{:>10} {:>7} {:>12.6f}\n", from + t + 1, next, log_p);
    }
  }
  if (writer) writer->commit();
  if (cpu.inputs) write_importance(options.importance, open.model, squares);
  const double perplexity = predicted ? std::exp(-total / double(predicted)) : NAN;
  const double per_byte = bytes ? std::exp(-total / double(bytes)) : NAN;
  if (options.json) {
    nlohmann::ordered_json found{{"tokens", ids.size()},
                                 {"predicted", predicted},
                                 {"log_probability", total},
                                 {"perplexity", perplexity}};
    if (bytes) found["bytes"] = bytes, found["perplexity_per_byte"] = per_byte;
    if (options.per_token) found["log_probabilities"] = rows;
    fmt::print("{}\n", found.dump(2));
    return 0;
  }
  fmt::print("tokens               {} ({} predicted)\n", ids.size(), predicted);
  fmt::print("log probability      {:.6f}\n", total);
  fmt::print("perplexity           {:.6f}\n", perplexity);
  if (bytes)
    fmt::print("perplexity per byte  {:.6f} ({})\n", per_byte, counted(bytes, "byte"));
  return 0;
}

}  // namespace

const Command score{
    "score", "the log probability and perplexity of a text", [](CLI::App& app) {
      auto options = std::make_shared<ScoreOptions>();
      options->model.describe(app);
      describe_input_word(app, options->input);
      app.add_option("-f,--file,--text", options->text, "a file with the text; -: standard input");
      app.add_option("--ids", options->ids, "a file with token ids: text, or .npy; -: standard input");
      app.add_option("-c,--context", options->context,
                     "tokens that are read with one state, then a fresh one; 0: the whole text")
          ->check(whole_number(0))
          ->capture_default_str();
      app.add_option(
          "--logits", options->logits,
          "write float32 logits [tokens, vocabulary], one row after each token, as .npy");
      app.add_option("--importance", options->importance,
                     "write how much each input of each matrix counts, for `convert --importance`");
      app.add_flag("--per-token", options->per_token, "the log probability of each token");
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n  deltasane score model.gguf -f book.txt\n"
          "  head -c 100000 book.txt | deltasane score model.gguf -\n"
          "  deltasane score model.pth --ids ids.npy --logits logits.npy");
      return [options] { return score_text(*options); };
    }};

}  // namespace deltasane::cli
