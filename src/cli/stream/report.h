// The page of `deltasane report`: runs, their figures, and one file that needs no other.
#pragma once

#include <string>
#include <vector>

#include "base/io/file.h"
#include "probe/record_file.h"

namespace deltasane::cli {

struct ReportRun {
  fs::path folder;
  std::string name;
  probe::RecordTable segments, heads, probes;
  std::vector<std::string> damages;  // what could not be read
};

ReportRun open_run(const fs::path& folder);
// With names: those given, one each, or of their folders and SANE. Prints what could not be read.
std::vector<ReportRun> open_runs(const std::vector<std::string>& folders,
                                 const std::vector<std::string>& names);

struct ReportFigure {
  std::string name, caption;  // NAME.svg and NAME.png in the folder
};

std::vector<ReportFigure> draw_figures(const std::vector<ReportRun>& runs, const fs::path& folder);

// The paper's figures; src/cli/stream/paper_figures.cpp says which.
struct PaperFigureOptions {
  std::vector<int64_t> positions;  // of heat maps; none: up to four of those that a run has
  double scale = 100;              // top of their colours
};
std::vector<ReportFigure> draw_paper_figures(const std::vector<ReportRun>& runs,
                                             const PaperFigureOptions& options,
                                             const fs::path& folder);

// HTML with the figures inside it.
std::string page_of(const std::string& title, const std::vector<ReportRun>& runs,
                    const std::vector<ReportFigure>& figures, const fs::path& folder);

}  // namespace deltasane::cli
