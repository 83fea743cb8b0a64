#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/json/array_at.h"
#include "cli/command.h"
#include "cli/eval/eval_prefix.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/terminal.h"
#include "cli/text/chat_flags.h"
#include "cli/text/sampling_flags.h"
#include "comm/local_rank.h"
#include "eval/run/evaluate.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::cli {
namespace {

struct EvalOptions {
  ModelFlags model;
  SamplingFlags sampling;
  PrefixFlags prefix;
  std::string suite, folder, out, shard;
  std::vector<std::string> merge, stops;
  ChatFlags chat;
  int64_t samples = 8, tokens = 1024, batch = 32, limit = 0;
  bool unverified = false, json = false;
};

eval::Shard shard_of(const EvalOptions& options) {
  if (!options.shard.empty()) return eval::shard_from(options.shard);
  if (const auto launched = comm::launched_rank()) return {launched->rank, launched->size};
  return {};
}

// Of several processes on a machine, each takes the GPU of its own number, unless one is named.
ModelFlags own_model(const EvalOptions& options) {
  ModelFlags flags = options.model;
  if constexpr (built_with_cuda)
    if (const auto launched = comm::launched_rank(); launched && flags.device == "cuda")
      flags.device = cat("cuda:", comm::own_gpu(launched->local, Gpu::count(),
                                                "name one for all with --device cuda:N"));
  return flags;
}

void print_notes(const std::vector<eval::Benchmark>& suite) {
  constexpr size_t most = 20;
  for (const eval::Benchmark& benchmark : suite) {
    const auto& notes = benchmark.notes;
    for (size_t i = 0; i < std::min(notes.size(), most); ++i)
      fmt::print(stderr, "note: {}\n", notes[i]);
    if (notes.size() > most)
      fmt::print(stderr, "note: {} more in {}\n", notes.size() - most, benchmark.name);
  }
}

void print_run_scores(const eval::Run& run, const std::string& out) {
  fmt::print("{:<18}{:>10}{:>12}{:>12}{:>14}\n", "benchmark", "problems", "majority", "pass@1",
             "no answer");
  double average = 0;
  int64_t refused = 0, samples = 0, overflowed = 0;
  for (const eval::RunBenchmark& benchmark : run.benchmarks) {
    const eval::RunScore score = score_of(benchmark);
    average += score.accuracy / double(run.benchmarks.size());
    refused += score.refused;
    samples += score.samples;
    overflowed += score.overflowed;
    fmt::print("{:<18}{:>10}{:>10.2f} %{:>10.2f} %{:>12.2f} %\n", benchmark.title, score.problems,
               score.accuracy, score.pass_at_1, score.unparsed);
  }
  fmt::print("{:<18}{:>10}{:>10.2f} %\n", "average", "", average);
  fmt::print("overflowed        {:>10} of {} samples{}\n", overflowed, samples,
             overflowed ? ": the state or the logits were not finite, and the answer ends there" : "");
  if (refused)
    fmt::print(stderr,
               "note: {} answers need algebra, which this build lacks; they count as wrong\n",
               refused);
  if (run.complete())
    fmt::print("in {}\n", out);
  else
    fmt::print("not complete: {} missing\n", run.missing());
}

nlohmann::ordered_json json_of(const eval::Run& run, const std::string& out) {
  nlohmann::ordered_json json{{"out", out},
                              {"complete", run.complete()},
                              {"average", 0.0},
                              {"benchmarks", nlohmann::ordered_json::array()}};
  double average = 0;
  for (const eval::RunBenchmark& benchmark : run.benchmarks) {
    const eval::RunScore score = score_of(benchmark);
    average += score.accuracy / double(run.benchmarks.size());
    array_at(json, "benchmarks")
        .push_back({{"name", benchmark.name},
                    {"problems", score.problems},
                    {"correct", score.correct},
                    {"majority", score.accuracy},
                    {"pass_at_1", score.pass_at_1},
                    {"no_answer", score.unparsed},
                    {"samples", score.samples},
                    {"overflowed", score.overflowed},
                    {"refused", score.refused}});
  }
  json["average"] = average;
  return json;
}

void print_scores(const eval::Run& run, const EvalOptions& options, const std::string& out) {
  if (options.json)
    fmt::print("{}\n", json_text(json_of(run, out)));
  else
    print_run_scores(run, out);
}

void show(ProgressLine& line, const eval::EvaluationProgress& p) {
  if (!line.due() && p.all_done < p.all_problems) return;
  line.show(fmt::format("{}: {}/{}, {:.1f} % right; {}/{} in all, {:.0f} tokens/s", p.benchmark,
                        p.done, p.problems, 100.0 * double(p.correct) / double(p.done), p.all_done,
                        p.all_problems, double(p.tokens) / line.seconds()));
}

int merge_shards(const EvalOptions& options) {
  const std::vector<fs::path> folders(options.merge.begin(), options.merge.end());
  const std::string out = options.out.empty() ? options.merge[0] : options.out;
  print_scores(eval::merge_runs(folders, out), options, out);
  return 0;
}

int evaluate_model(const EvalOptions& options) {
  if (!options.merge.empty()) return merge_shards(options);
  const std::pair<const std::string&, const char*> needed[]{
      {options.model.path, "MODEL"}, {options.suite, "--suite"}, {options.out, "--out"}};
  for (const auto& [value, name] : needed)
    if (value.empty()) fail(Fault::usage, "eval: expected ", name, ", found none; see --help");
  eval::EvaluationSettings settings;
  settings.batch = {options.sampling.settings, {}, options.batch, options.tokens};
  settings.samples = options.samples;
  settings.mode = options.chat.reply_mode();
  settings.shard = shard_of(options);
  settings.changed = options.unverified ? ChangedFiles::allow : ChangedFiles::refuse;
  const std::vector<eval::Benchmark> suite =
      eval::open_suite(options.suite, {.folder = options.folder, .limit = options.limit});
  print_notes(suite);

  OpenModel open(own_model(options));
  const auto tokenizer =
      open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
  const auto chat = options.chat.open(*tokenizer);
  settings.batch.stops = options.stops.empty() ? chat->stops() : options.stops;
  const eval::Prefix prefix =
      options.prefix.open(open, *tokenizer, options.out, options.sampling.on_overflow());
  ProgressLine line(ProgressLine::First::at_once);
  const eval::Run run = eval::evaluate(
      {open.model, open.name, *tokenizer, open.cpu(), *chat}, prefix, suite, settings, options.out,
      [&](const eval::EvaluationProgress& progress) { show(line, progress); });
  line.end();
  print_scores(run, options, options.out);
  return 0;
}

}  // namespace

const Command eval_suite{
    "eval", "score a model on benchmarks, by majority vote", [](CLI::App& app) {
      auto options = std::make_shared<EvalOptions>();
      options->model.describe(app);
      app.get_option("MODEL")->required(false);  // --merge needs none
      app.add_option("--suite", options->suite,
                     "all, names of benchmarks with commas, math-chat, or a .toml file");
      app.add_option("--data", options->folder, "folder with NAME/test.jsonl for each benchmark");
      app.add_option("--out", options->out, "folder of the run; an existing one is resumed");
      app.add_flag("--resume-unverified", options->unverified,
                   "continue with a run also where the model, the vocabulary or the problems have "
                   "changed, or it is of a version without checksums");
      app.add_option("--samples", options->samples, "answers to each problem, which vote")
          ->capture_default_str();
      app.add_option("--limit", options->limit, "the first problems of each benchmark; 0: all")
          ->check(whole_number(0))
          ->capture_default_str();
      app.add_option("--tokens", options->tokens, "tokens of an answer at most")
          ->capture_default_str();
      app.add_option("--batch", options->batch, "answers written at a time; does not change them")
          ->capture_default_str();
      options->chat.describe(app);
      app.add_option("--stop", options->stops,
                     "an answer ends before this text; before the user's next turn if not given");
      app.add_option("--shard", options->shard,
                     "I/N: only part I of N; under mpirun, the rank's part");
      app.add_option("--merge", options->merge, "put the shards in these folders together");
      options->prefix.describe(app);
      options->sampling.describe(app);
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n"
          "  deltasane eval model.pth --suite all --data problems --out runs/baseline\n"
          "  deltasane eval model.pth --suite gsm8k,svamp --data problems --limit 100 --out "
          "runs/short\n"
          "  mpirun -n 4 deltasane eval model.pth --suite all --data problems --threads 8 --out "
          "runs/four\n"
          "  mpirun -n 8 deltasane eval model.pth --suite all --data problems --device cuda \\\n"
          "    --prefix-corpus math-chat --prefix-tokens 100000000 --out runs/eight\n"
          "  deltasane eval --merge runs/four");
      return [options] { return evaluate_model(*options); };
    }};

}  // namespace deltasane::cli
