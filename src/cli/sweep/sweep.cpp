#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "cli/command.h"
#include "cli/number_range.h"
#include "cli/sweep/sweep_check.h"
#include "cli/sweep/sweep_page.h"
#include "cli/sweep/sweep_queue.h"
#include "comm/local_rank.h"

namespace deltasane::cli {
namespace {

// Of several processes each has one device: of its local rank.
void take_own_device(SweepOptions& options, const comm::LaunchedRank& launched) {
  const auto here = size_t(launched.local.rank);
  if (options.devices.size() == 1) {
    if (options.devices[0] == "cuda") options.devices[0] = fmt::format("cuda:{}", here);
    return;
  }
  if (here >= options.devices.size())
    fail(Fault::usage, "--devices: expected one for each of the ", launched.local.size,
         " processes on this machine, found ", options.devices.size());
  options.devices = {options.devices[here]};
}

int sweep_alphas(SweepOptions options) {
  const auto launched = comm::launched_rank();
  if (launched) take_own_device(options, *launched);
  check_sweep(options);
  claim_sweep_folder(options);
  work_off(options);
  if (launched && launched->rank != 0) return 0;
  while (!all_finished(options)) {  // others are at work; what one of them left is taken over
    std::this_thread::sleep_for(std::chrono::seconds(1));
    work_off(options);
  }
  fmt::print(options.told(), "\n== page\n");
  std::fflush(options.told());
  const fs::path page = write_sweep_page(options);
  fmt::print(options.told(), "all of it is in {}\n", page.string());
  if (options.json) fmt::print("{}", sweep_json(options, page));
  return 0;
}

}  // namespace

const Command sweep{
    "sweep", "train, stream and evaluate over a list of alphas", [](CLI::App& app) {
      auto options = std::make_shared<SweepOptions>();
      app.add_option("--model", options->model, "a baseline that SANE is put on with graft");
      app.add_option("--train", options->config,
                     "or a configuration of train, which is run with each alpha");
      app.add_option("--set", options->set, "SECTION.KEY=VALUE for train; may be given again")
          ->allow_extra_args(false);
      app.add_option("--steps", options->steps, "steps of training; 0: as the configuration says")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_option("--alphas", options->alphas, "strengths of SANE; 0: the baseline")
          ->delimiter(',')
          ->capture_default_str();
      app.add_option("--devices", options->devices,
                     "such as cuda:0,cuda:1: one alpha on each at a time, the rest wait; cpu,cpu: two "
                     "at a time")
          ->delimiter(',')
          ->capture_default_str();
      app.add_option("--out", options->out,
                     "folder of the sweep; an existing one is resumed")
          ->required();
      app.add_option("--corpus", options->corpus,
                     "what each model reads, such as math-chat:seed=1");
      app.add_option("--tokens", options->tokens, "how many tokens of it; 0: no stream")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_option("--suite", options->suite, "what each model is asked, as in eval");
      app.add_option("--data", options->problems, "folder of the benchmarks, as in eval");
      app.add_option("--samples", options->samples, "answers to each problem")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--limit", options->limit, "the first problems of each benchmark; 0: all")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_option("--answer-tokens", options->answer_tokens, "tokens of an answer at most")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--batch", options->batch, "answers written at a time; does not change them")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--mode", options->mode, "of answers: plain, think or fast-think")
          ->capture_default_str();
      app.add_option("--seed", options->seed, "of the samples, as in eval");
      app.add_option("--tokenizer", options->tokenizer,
                     "a World vocabulary file, or 'byte'; as train or the model has it if not "
                     "given");
      app.add_flag("--json", options->json,
                   "print the results as JSON, and what is done to standard error");
      app.footer(
          "Tokenizer, data, suites, devices, memory and disk are checked before the first step. "
          "The same\ncommand resumes a sweep that was stopped or killed. OUT/sweep.md has all "
          "results.\nExamples:\n"
          "  deltasane sweep --model model.pth --alphas 0,1,3,5 --suite gsm8k --data problems "
          "\\\n"
          "    --corpus math-chat:seed=1 --tokens 1000000 --out sweeps/graft\n"
          "  deltasane sweep --train examples/sane_sft.toml --alphas 0,1,2,3 --devices "
          "cuda:0,cuda:1 \\\n"
          "    --suite all --data problems --out sweeps/sft\n"
          "  mpirun -n 8 deltasane sweep --train examples/sane_sft.toml --devices cuda --out "
          "sweeps/eight");
      return [options] { return sweep_alphas(*options); };
    }};

}  // namespace deltasane::cli
