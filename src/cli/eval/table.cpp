#include "cli/eval/table.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/io/folder.h"
#include "cli/command.h"
#include "cli/number_range.h"
#include "eval/stream/stream_folder.h"
#include "model/sane.h"

namespace deltasane::cli {
namespace {

struct TableOptions {
  std::vector<std::string> runs;
  std::string format = "markdown", out;
  double level = 0.05;
  bool partial = false;
};

// The alpha of a stream's model; fails where the stream did not overflow.
std::optional<double> alpha_of_overflow(const fs::path& folder) {
  const probe::RecordTable segments = probe::read_records(folder / segments_file);
  if (std::ranges::count(segments.integers("overflow"), 1) == 0)
    fail(Fault::usage, folder,
         ": expected a folder of eval, or a stream that overflowed, found a stream that did not");
  return alpha_in(segments.setting("sane"));
}

int print_table(const TableOptions& options) {
  if (!(options.level > 0 && options.level < 1))
    fail(Fault::usage, "--level: expected a number between 0 and 1, found ", options.level);
  const eval::SweepTable table = read_sweep_table(
      options.runs, options.partial ? eval::Unfinished::shared : eval::Unfinished::refuse);
  const eval::SweepVerdict verdict = eval::judge(table, options.level);
  if (options.out.empty()) {
    fmt::print("{}", options.format == "csv"     ? eval::to_csv(table)
                     : options.format == "json"  ? eval::to_json(table, verdict)
                     : options.format == "latex" ? eval::to_latex(table)
                                                 : eval::to_markdown(table, verdict));
    return 0;
  }
  write_sweep_table(table, verdict, options.out);
  for (const std::string& sentence : eval::sentences(table, verdict)) fmt::print("{}\n", sentence);
  fmt::print("in {}\n", options.out);
  return 0;
}

}  // namespace

eval::SweepTable read_sweep_table(const std::vector<std::string>& runs,
                                  eval::Unfinished unfinished) {
  if (runs.size() == 1 && runs[0].ends_with(".csv"))
    return eval::sweep_table_from_csv(read_file(runs[0]), runs[0]);
  std::vector<eval::Run> scored;
  std::vector<std::optional<double>> overflows;
  for (const std::string& folder : runs) {
    if (folder.ends_with(".csv"))
      fail(Fault::usage, folder, ": expected a table of scores to be the only one, found others");
    if (fs::exists(fs::path(folder) / segments_file))
      overflows.push_back(alpha_of_overflow(folder));
    else
      scored.push_back(eval::read_run(folder));
  }
  if (scored.empty()) fail(Fault::usage, "table: expected folders of eval, found none");
  eval::SweepTable table = eval::sweep_table(scored, unfinished);
  for (const std::optional<double>& alpha : overflows) eval::add_overflow(table, alpha);
  return table;
}

void write_sweep_table(const eval::SweepTable& table, const eval::SweepVerdict& verdict,
                       const fs::path& folder) {
  create_folder(folder);
  replace_file(folder / "table.md", eval::to_markdown(table, verdict));
  replace_file(folder / "table.csv", eval::to_csv(table));
  replace_file(folder / "table.tex", eval::to_latex(table));
  replace_file(folder / "p_values.csv", eval::p_values_csv(table));
  if (std::ranges::any_of(table.plain,
                          [](const eval::SweepRow& row) { return row.alpha.has_value(); }))
    plot::draw(eval::accuracy_chart(table, verdict), folder, "accuracy");
}

const Command sweep_scores{
    "table", "scores of a baseline and several alphas as the paper's table", [](CLI::App& app) {
      auto options = std::make_shared<TableOptions>();
      app.add_option("RUN", options->runs,
                     "folders of eval, with and without a prefix; folders of streams that "
                     "overflowed; or one CSV file of scores")
          ->required();
      app.add_option("--out", options->out,
                     "write table.md, table.csv, table.tex, p_values.csv and the figure here");
      app.add_option("--format", options->format, "without --out: markdown, csv, latex or json")
          ->check(one_of({"markdown", "csv", "latex", "json"}))
          ->capture_default_str();
      app.add_flag_callback("--json", [options] { options->format = "json"; }, "as --format json");
      app.add_option("--level", options->level, "p below which a difference is significant")
          ->capture_default_str();
      app.add_flag("--partial", options->partial, "take the problems that all runs have so far");
      app.footer(
          "Examples:\n"
          "  deltasane table runs/* --out table\n"
          "  deltasane table runs/baseline runs/alpha3 runs/alpha3-after streams/baseline\n"
          "  deltasane table scores.csv --format latex");
      return [options] { return print_table(*options); };
    }};

}  // namespace deltasane::cli
