#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/page/page.h"
#include "cli/stream/report.h"
#include "cli/stream/run_curves.h"

namespace deltasane::cli {
namespace {

// The mean over the streams, by position.
std::map<int64_t, double> accuracy_by_position(const ReportRun& run) {
  std::map<int64_t, std::pair<double, int>> sums;
  for (size_t i = 0; i < size_t(run.probes.rows); ++i) {
    auto& [sum, count] = sums[run.probes.integers("position")[i]];
    sum += run.probes.reals("accuracy")[i], ++count;
  }
  std::map<int64_t, double> means;
  for (const auto& [position, one] : sums) means[position] = one.first / one.second;
  return means;
}

// Columns that are empty in every run are left out.
PageTable runs_table(const std::vector<ReportRun>& runs) {
  PageTable table{{{"run", true},
                   {"outcome", true},
                   {"accuracy, first"},
                   {"accuracy, last"},
                   {"norm, first"},
                   {"norm, last"},
                   {"max |S|, last"},
                   {"perplexity"},
                   {"tokens"}},
                  {}};
  for (const ReportRun& run : runs) {
    const RunSummary found = summary_of(run);
    const auto share = [](std::optional<double> accuracy) {
      return accuracy ? fmt::format("{:.2f}", *accuracy) : std::string("-");
    };
    table.rows.push_back({run.name, found.outcome, share(found.first_accuracy),
                          share(found.last_accuracy), fmt::format("{:.3g}", found.first_norm),
                          fmt::format("{:.3g}", found.last_norm),
                          fmt::format("{:.3g}", found.largest),
                          fmt::format("{:.4g}", found.perplexity),
                          fmt::format("{}", found.tokens)});
  }
  for (size_t i = table.columns.size(); i-- > 0;) {
    const auto is_empty = [i](const auto& row) { return row[i] == "-"; };
    if (!std::ranges::all_of(table.rows, is_empty)) continue;
    table.columns.erase(table.columns.begin() + int64_t(i));
    for (auto& row : table.rows) row.erase(row.begin() + int64_t(i));
  }
  return table;
}

}  // namespace

std::optional<int64_t> lost_answers_at(const std::map<int64_t, double>& accuracy) {
  std::optional<int64_t> since;
  double best = 0;
  for (const auto& [position, share] : accuracy) {
    best = std::max(best, share);
    if (share >= best / 2)
      since.reset();
    else if (!since)
      since = position;
  }
  return since;
}

std::string outcome_of(const ReportRun& run) {
  for (size_t i = 0; i < size_t(run.segments.rows); ++i)
    if (run.segments.integers("overflow")[i])
      return fmt::format(
          "overflow after {} tokens, layer {}, head {}", run.segments.integers("position")[i],
          run.segments.integers("overflow_layer")[i], run.segments.integers("overflow_head")[i]);
  const std::map<int64_t, double> accuracy = accuracy_by_position(run);
  if (const auto at = lost_answers_at(accuracy))
    return fmt::format("failed at {} tokens: accuracy fell from {:.2f} to {:.2f}", *at,
                       accuracy.begin()->second, accuracy.at(*at));
  return accuracy.empty() ? "finite" : "finite, answers kept";
}

RunSummary summary_of(const ReportRun& run) {
  const auto last = size_t(run.segments.rows) - 1;
  const auto number = [&](const char* column, size_t row) { return run.segments.reals(column)[row]; };
  RunSummary found;
  found.outcome = outcome_of(run);
  found.loss = number("cumulative_loss", last);
  found.perplexity = number("cumulative_perplexity", last);
  found.first_norm = number("norm", 0), found.last_norm = number("norm", last);
  found.largest = number("largest", last);
  found.tokens = run.segments.integers("position")[last];
  const std::map<int64_t, double> accuracy = accuracy_by_position(run);
  if (!accuracy.empty())
    found.first_accuracy = accuracy.begin()->second, found.last_accuracy = accuracy.rbegin()->second;
  return found;
}

std::string page_of(const std::string& title, const std::vector<ReportRun>& runs,
                    const std::vector<ReportFigure>& figures, const fs::path& folder) {
  Page page(title);
  page.add(runs_table(runs));
  for (const ReportFigure& figure : figures) {
    if (figure.chart)
      page.add({*figure.chart, figure.caption, figure.shown});
    else
      page.add_drawing(read_file(folder / (figure.name + ".svg")), figure.title, figure.caption);
  }
  for (const ReportRun& run : runs)
    page.add_text(fmt::format("{}: {}, {}, reads {}.", run.name, run.segments.setting("model"),
                              run.segments.setting("sane"), run.segments.setting("corpus")));
  return page.html();
}

}  // namespace deltasane::cli
