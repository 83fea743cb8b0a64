// The page of `deltasane report`: runs, their figures, and one file that needs no other.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "plot/figure.h"
#include "probe/record_file.h"

namespace deltasane::cli {

struct ReportRun {
  fs::path folder;
  std::string name;
  probe::RecordTable segments, heads, probes;
  std::vector<std::string> damages;  // what could not be read
};

ReportRun open_run(const fs::path& folder);
// With names: those given, one each, or of their folders and SANE, each different. Prints what could not be read.
std::vector<ReportRun> open_runs(const std::vector<std::string>& folders,
                                 const std::vector<std::string>& names);

struct ReportFigure {
  std::string name, caption;  // NAME.svg and NAME.png in the folder; no name: in the page alone
  std::string title{};
  std::optional<plot::Chart> chart{};  // what the page draws itself
  size_t shown = size_t(-1);           // its curves at first
};

// What matters most first: answers, norms, perplexity. With gnuplot, charts
// are also drawn to files, and heat maps follow.
std::vector<ReportFigure> draw_figures(const std::vector<ReportRun>& runs, const fs::path& folder);

// The first position from which on accuracy stays below half of the best before it.
std::optional<int64_t> lost_answers_at(const std::map<int64_t, double>& accuracy);

// How a run ended: "overflow after ...", "failed at ..." where its answers were lost, or "finite".
std::string outcome_of(const ReportRun& run);

// A run in numbers: accuracies where it was asked, norms of the first and the last record.
struct RunSummary {
  std::string outcome;
  std::optional<double> first_accuracy, last_accuracy;
  double loss = 0, perplexity = 0;  // of all that was read
  double first_norm = 0, last_norm = 0, largest = 0;
  int64_t tokens = 0;
};
RunSummary summary_of(const ReportRun& run);

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
