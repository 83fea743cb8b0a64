#include "cli/stream/report.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "plot/gnuplot.h"

namespace deltasane::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> folders, names;
  std::string out = "report.html", title = "Long streams";
};

// The last `parts` of a folder's path.
std::string end_of(const fs::path& folder, size_t parts) {
  const fs::path whole = (fs::absolute(folder) / "").lexically_normal().parent_path();
  std::vector<fs::path> all(whole.begin(), whole.end());
  fs::path end;
  for (size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) end /= all[i];
  return end.string();
}

// What makes runs differ stands in their names; the rest is in the table.
std::string name_of_run(const ReportRun& run, size_t parts) {
  const std::string& sane = run.segments.setting("sane");
  const std::string name = end_of(run.folder, parts);
  return sane.empty() || sane.find("SANE") == sane.npos || sane.starts_with("no ")
             ? name
             : name + " (" + sane.substr(0, sane.find(", chunk")) + ")";
}

// Runs of folders with the same name get the folders above in theirs, as many as tell them apart; the same
// folder given twice is numbered.
void name_runs(std::vector<ReportRun>& runs) {
  for (ReportRun& run : runs) run.name = name_of_run(run, 1);
  const auto shared = [&runs] {
    std::map<std::string, std::vector<ReportRun*>> by_name;
    for (ReportRun& run : runs) by_name[run.name].push_back(&run);
    std::erase_if(by_name, [](const auto& one) { return one.second.size() < 2; });
    return by_name;
  };
  bool longer = true;
  for (size_t parts = 2; longer; ++parts) {
    longer = false;
    for (const auto& [name, equal] : shared())
      for (ReportRun* run : equal) {
        run->name = name_of_run(*run, parts);
        longer = longer || run->name != name;
      }
  }
  for (const auto& [name, equal] : shared())
    for (size_t i = 0; i < equal.size(); ++i) equal[i]->name += fmt::format(" ({})", i + 1);
}

int write_report(const ReportOptions& options) {
  const std::vector<ReportRun> runs = open_runs(options.folders, options.names);
  const fs::path page(options.out);
  const fs::path figures = fs::path(page).replace_extension("") += "-figures";
  if (plot::has_gnuplot()) fs::create_directories(figures);
  const std::vector<ReportFigure> drawn = draw_figures(runs, figures);
  replace_file(page, page_of(options.title, runs, drawn, figures));
  fmt::print("report               {}\n", page.string());
  if (plot::has_gnuplot())
    fmt::print("figures              in {}, as SVG and PNG\n", figures.string());
  else
    fmt::print(stderr, "note: gnuplot is not installed: no heat maps, and no figures as files\n");
  return 0;
}

}  // namespace

std::vector<ReportRun> open_runs(const std::vector<std::string>& folders,
                                 const std::vector<std::string>& names) {
  if (!names.empty() && names.size() != folders.size())
    fail(Fault::usage, "--names: expected one for each of ", folders.size(), " folders, found ",
         names.size());
  std::vector<ReportRun> runs;
  for (size_t i = 0; i < folders.size(); ++i) {
    runs.push_back(open_run(folders[i]));
    if (!names.empty()) runs.back().name = names[i];
    for (const std::string& damage : runs.back().damages)
      fmt::print(stderr, "{}; going by the rows before it\n", damage);
  }
  if (names.empty()) name_runs(runs);
  return runs;
}

const Command report{
    "report", "figures of one or several streams, as one page", [](CLI::App& app) {
      auto options = std::make_shared<ReportOptions>();
      app.add_option("DIR", options->folders, "folders that `deltasane stream` wrote")->required();
      app.add_option("--out", options->out, "the page; its figures get a folder beside it")
          ->capture_default_str();
      app.add_option("--names", options->names, "what to call the runs, one name each")
          ->delimiter(',');
      app.add_option("--title", options->title, "the page's title")->capture_default_str();
      app.footer(
          "Example:\n  deltasane report base sane --names baseline,'alpha 3' --out report.html");
      return [options] { return write_report(*options); };
    }};

}  // namespace deltasane::cli
