#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "cli/command.h"
#include "eval/run/score_table.h"

namespace deltasane::cli {
namespace {

struct CompareOptions {
  std::vector<std::string> runs;
  std::string baseline, format = "markdown", out, figure;
  eval::BootstrapSettings bootstrap;
  int threads = 0;
  bool partial = false;
};

eval::ScoreTable read_table(const CompareOptions& options) {
  if (options.runs.size() == 1 && options.runs[0].ends_with(".csv"))
    return eval::table_from_csv(read_file(options.runs[0]), options.runs[0]);
  std::vector<eval::Run> runs;
  for (const std::string& folder : options.runs) {
    if (folder.ends_with(".csv"))
      fail(Fault::usage, folder, ": expected a table of scores to be the only one, found others");
    runs.push_back(eval::read_run(folder));
    if (!runs.back().sealed)
      fmt::print(stderr, "note: {}: of a version without checksums; damage cannot be seen\n",
                 folder);
  }
  if (!options.baseline.empty()) {
    const auto at = std::ranges::find(runs, options.baseline, &eval::Run::name);
    if (at == runs.end())
      fail(Fault::usage, "--baseline: expected the name of a run's folder, found '",
           options.baseline, "'");
    std::rotate(runs.begin(), at, at + 1);
  }
  return eval::table_of(runs,
                        options.partial ? eval::Unfinished::shared : eval::Unfinished::refuse);
}

void draw(const eval::Comparison& comparison, const fs::path& svg) {
  const std::string script = svg.string() + ".gp";
  replace_file(script, eval::score_figure(comparison, svg));
  std::string program = "gnuplot", file = script;
  char* const words[]{program.data(), file.data(), nullptr};
  pid_t child = 0;
  int status = -1;
  const bool begun = posix_spawnp(&child, program.c_str(), nullptr, nullptr, words, environ) == 0;
  if (begun) waitpid(child, &status, 0);
  if (!begun || (WIFEXITED(status) && WEXITSTATUS(status) == 127))
    fail(Fault::device, "--figure: expected gnuplot to be installed, found none; ", script,
         " draws the figure where it is");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(Fault::device, script, ": expected gnuplot to draw it, found an error (above)");
}

int compare_runs(const CompareOptions& options) {
  const eval::BootstrapSettings& bootstrap = options.bootstrap;
  if (bootstrap.resamples < 1 || !(bootstrap.level > 0 && bootstrap.level < 1))
    fail(Fault::usage, "compare: expected --resamples above 0 and --level between 0 and 1, found ",
         bootstrap.resamples, " and ", bootstrap.level);
  ThreadPool threads(options.threads);
  const eval::Comparison comparison = eval::compare(read_table(options), bootstrap, threads);
  const std::string text = options.format == "csv"    ? eval::to_csv(comparison)
                           : options.format == "json" ? eval::to_json(comparison)
                                                      : eval::to_markdown(comparison);
  if (options.out.empty())
    fmt::print("{}", text);
  else
    replace_file(options.out, text);
  if (!options.figure.empty()) draw(comparison, options.figure);
  return 0;
}

}  // namespace

const Command compare_scores{
    "compare", "runs of eval side by side, with tests", [](CLI::App& app) {
      auto options = std::make_shared<CompareOptions>();
      app.add_option("RUN", options->runs, "folders that eval wrote, or one CSV table of scores")
          ->required();
      app.add_option("--baseline", options->baseline,
                     "name of the run to compare with; the first if not given");
      app.add_option("--format", options->format, "markdown, csv or json")
          ->check(CLI::IsMember({"markdown", "csv", "json"}))
          ->capture_default_str();
      app.add_flag_callback("--json", [options] { options->format = "json"; }, "as --format json");
      app.add_option("--out", options->out, "write the table to this file");
      app.add_option("--figure", options->figure, "draw the accuracies; of two alphas and more, against alpha (SVG, by gnuplot)");
      app.add_option("--resamples", options->bootstrap.resamples, "of the bootstrap")
          ->capture_default_str();
      app.add_option("--level", options->bootstrap.level, "of intervals")->capture_default_str();
      app.add_option("--seed", options->bootstrap.seed, "of the bootstrap")->capture_default_str();
      app.add_option("--threads", options->threads, "threads; 0: all processors")
          ->capture_default_str();
      app.add_flag("--partial", options->partial, "compare the problems that all runs have so far");
      app.footer(
          "Examples:\n"
          "  deltasane compare runs/baseline runs/alpha3 runs/alpha7\n"
          "  deltasane compare runs/* --baseline baseline --figure alpha.svg");
      return [options] { return compare_runs(*options); };
    }};

}  // namespace deltasane::cli
