#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <sstream>

#include "base/cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "cli/command.h"
#include "cli/own_commands.h"
#include "format/toml_text.h"
#include "train/checkpoint.h"

namespace deltasane::cli {
namespace {

struct SweepOptions {
  std::string model, config, out, corpus, suite, tokenizer;
  std::vector<double> alphas{0, 1, 2, 3, 5, 10};
  int64_t tokens = 0;
  std::string problems;
  int64_t samples = 8, limit = 0, answer_tokens = 1024;
};

std::string run_name(double alpha) {
  return alpha == 0 ? "baseline" : fmt::format("alpha-{:g}", alpha);
}

// One alpha: train or graft, ask, stream, ask again. What is done is marked by a file, and a step
// that was cut goes on by itself.
class SweepRun {
 public:
  SweepRun(const SweepOptions& options, double alpha)
      : options_(options), alpha_(alpha), folder_(fs::path(options.out) / run_name(alpha)) {
    fs::create_directories(folder_);
  }

  void all() {
    once("model", [&] { options_.config.empty() ? graft() : train(); });
    if (!options_.suite.empty()) once("eval", [&] { eval("eval", {}); });
    if (options_.tokens == 0) return;
    once("stream", [&] { stream(); });
    const fs::path state = last_state();
    if (state.empty()) {
      fmt::print("{}: the stream overflowed before its end; not asked after it\n",
                 run_name(alpha_));
      return;
    }
    if (!options_.suite.empty())
      once("eval-after", [&] { eval("eval-after", {"--prefix-state", state.string()}); });
  }

 private:
  template <class Body>
  void once(const std::string& step, Body body) {
    const fs::path mark = folder_ / (step + ".done");
    if (fs::exists(mark)) return;
    fmt::print("\n== {}: {}\n", run_name(alpha_), step);
    std::fflush(stdout);
    body();
    replace_file(mark, "");
  }

  void graft() const {
    if (alpha_ > 0)
      run_own(
          {"graft", options_.model, grafted().string(), "--alpha", fmt::format("{:g}", alpha_)});
  }

  // The configuration with this alpha and a folder of its own.
  void train() const {
    toml::table config = parse_toml(read_file(options_.config), options_.config);
    toml::table* model = config["model"].as_table();
    if (model == nullptr)
      fail(Fault::file, options_.config, ": expected a table [model], found none");
    model->insert_or_assign("sane_alpha", alpha_);
    if (!config["run"].is_table()) config.insert_or_assign("run", toml::table{});
    config["run"].as_table()->insert_or_assign("folder", training().string());
    std::ostringstream text;
    text << config << '\n';
    const fs::path path = folder_ / "train.toml";
    replace_file(path, text.str());
    std::vector<std::string> words{"train", path.string()};
    if (!newest_checkpoint().empty()) words.push_back("--resume");
    run_own(words);
  }

  void stream() const {
    std::vector<std::string> words{"stream",      model(),
                                   "--corpus",    options_.corpus,
                                   "--tokens",    fmt::to_string(options_.tokens),
                                   "--out",       streaming().string(),
                                   "--snapshots", fmt::to_string(options_.tokens)};
    add_tokenizer(words);
    if (fs::exists(streaming())) words.push_back("--resume");
    run_own(words);
  }

  void eval(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"eval",      model(),
                                   "--suite",   options_.suite,
                                   "--out",     (folder_ / name / run_name(alpha_)).string(),
                                   "--samples", fmt::to_string(options_.samples),
                                   "--limit",   fmt::to_string(options_.limit),
                                   "--tokens",  fmt::to_string(options_.answer_tokens)};
    if (!options_.problems.empty()) words.insert(words.end(), {"--data", options_.problems});
    add_tokenizer(words);
    words.insert(words.end(), more.begin(), more.end());
    run_own(words);
  }

  void add_tokenizer(std::vector<std::string>& words) const {
    if (!options_.tokenizer.empty()) words.insert(words.end(), {"--tokenizer", options_.tokenizer});
  }

  std::string model() const {
    if (!options_.config.empty()) return (newest_checkpoint() / "model.safetensors").string();
    return alpha_ == 0 ? options_.model : grafted().string();
  }
  fs::path grafted() const { return folder_ / "model.safetensors"; }
  fs::path training() const { return folder_ / "train"; }
  fs::path streaming() const { return folder_ / "stream"; }

  fs::path newest_checkpoint() const {
    const std::vector<fs::path> all = train::checkpoints_in(training());
    return all.empty() ? fs::path() : all.back();
  }
  fs::path last_state() const {
    const fs::path folder = streaming() / "snapshots";
    if (fs::exists(folder))
      for (const auto& entry : fs::directory_iterator(folder))
        if (entry.path().filename().string().find(cat("-", options_.tokens, ".")) !=
            std::string::npos)
          return entry.path();
    return {};
  }

  const SweepOptions& options_;
  double alpha_;
  fs::path folder_;
};

void compare_runs(const SweepOptions& options, const std::string& step) {
  std::vector<std::string> words{"compare"};
  for (const double alpha : options.alphas) {
    const std::string name = run_name(alpha);
    if (fs::exists(fs::path(options.out) / name / (step + ".done")))
      words.push_back((fs::path(options.out) / name / step / name).string());
  }
  if (words.size() < 3) return;
  fmt::print("\n== {}\n", step == "eval" ? "without a prefix" : "after the stream");
  std::fflush(stdout);
  const fs::path table = fs::path(options.out) / (step + ".md");
  words.insert(words.end(), {"--out", table.string()});
  run_own(words);
  fmt::print("{}\n", read_file(table));
}

int sweep_alphas(const SweepOptions& options) {
  if (options.model.empty() == options.config.empty())
    fail(Fault::usage, "sweep: expected --model or --train, found ",
         options.model.empty() ? "neither" : "both");
  if (options.tokens > 0 && options.corpus.empty())
    fail(Fault::usage, "sweep: expected --corpus with --tokens, found none");
  if (options.tokens == 0 && options.suite.empty() && options.config.empty())
    fail(Fault::usage, "sweep: expected --suite, --tokens or --train, found nothing to do");
  for (const double alpha : options.alphas)
    if (!(alpha >= 0 && alpha < 1e6))
      fail(Fault::usage, "--alphas: expected numbers from 0 (the baseline), found ", alpha);
  for (const double alpha : options.alphas) SweepRun(options, alpha).all();
  if (!options.suite.empty())
    for (const std::string step : {"eval", "eval-after"}) compare_runs(options, step);
  return 0;
}

}  // namespace

const Command sweep{
    "sweep", "train, stream and evaluate over a list of alphas", [](CLI::App& app) {
      auto options = std::make_shared<SweepOptions>();
      app.add_option("--model", options->model, "a baseline that SANE is put on with graft");
      app.add_option("--train", options->config,
                     "or a configuration of train, which is run with each alpha");
      app.add_option("--alphas", options->alphas, "strengths of SANE; 0: the baseline")
          ->delimiter(',')
          ->capture_default_str();
      app.add_option("--out", options->out,
                     "folder of the sweep; one that is there is gone on with")
          ->required();
      app.add_option("--corpus", options->corpus,
                     "what each model reads, such as math-chat:seed=1");
      app.add_option("--tokens", options->tokens, "how many tokens of it; 0: no stream")
          ->capture_default_str();
      app.add_option("--suite", options->suite, "what each model is asked, as in eval");
      app.add_option("--data", options->problems, "folder of the benchmarks, as in eval");
      app.add_option("--samples", options->samples, "answers to each problem")
          ->capture_default_str();
      app.add_option("--limit", options->limit, "the first problems of each benchmark; 0: all")
          ->capture_default_str();
      app.add_option("--answer-tokens", options->answer_tokens, "tokens of an answer at most")
          ->capture_default_str();
      app.add_option("--tokenizer", options->tokenizer, "a World vocabulary file, or 'byte'");
      app.footer(
          "Examples:\n"
          "  deltasane sweep --model model.pth --alphas 0,1,3,5 --suite gsm8k --data problems "
          "\\\n"
          "    --corpus math-chat:seed=1 --tokens 1000000 --out sweeps/graft\n"
          "  deltasane sweep --train examples/sane_sft.toml --alphas 0,1,2,3 --out sweeps/sft");
      return [options] { return sweep_alphas(*options); };
    }};

}  // namespace deltasane::cli
