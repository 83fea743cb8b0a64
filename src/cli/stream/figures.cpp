#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/stream/report.h"

namespace deltasane::cli {
namespace {

struct FigureOptions {
  std::vector<std::string> folders, names;
  std::string out = "figures";
  PaperFigureOptions paper;
};

int draw_all(const FigureOptions& options) {
  if (!(options.paper.scale > 0))
    fail(Fault::usage, "--scale: expected a number above 0, found ", options.paper.scale);
  const std::vector<ReportRun> runs = open_runs(options.folders, options.names);
  fs::create_directories(options.out);
  for (const ReportFigure& figure : draw_paper_figures(runs, options.paper, options.out))
    fmt::print("{:<22} {}\n", figure.name, figure.caption);
  fmt::print("in {}, as SVG and PNG\n", options.out);
  return 0;
}

}  // namespace

const Command paper_figures{
    "figures", "the paper's figures of one or several streams", [](CLI::App& app) {
      auto options = std::make_shared<FigureOptions>();
      app.add_option("DIR", options->folders, "folders that `deltasane stream` wrote")->required();
      app.add_option("--out", options->out, "a folder for the figures")->capture_default_str();
      app.add_option("--names", options->names, "what to call the runs, one name each")
          ->delimiter(',');
      app.add_option("--positions", options->paper.positions,
                     "of snapshots, for heat maps; if not given, up to four that a run has, near "
                     "4096, 528K, 1.5M and 10M where it is so long")
          ->delimiter(',');
      app.add_option("--scale", options->paper.scale, "|S| at the top of the heat maps' colours")
          ->capture_default_str();
      app.footer(
          "Example:\n  deltasane figures base sane5 sane10 --names baseline,'alpha 5','alpha 10'");
      return [options] { return draw_all(*options); };
    }};

}  // namespace deltasane::cli
