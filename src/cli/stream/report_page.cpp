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
    const auto last = size_t(run.segments.rows) - 1;
    const auto number = [&](const char* column, size_t row) {
      return fmt::format("{:.3g}", run.segments.reals(column)[row]);
    };
    const std::map<int64_t, double> accuracy = accuracy_by_position(run);
    const auto share = [&](const auto& at) {
      return accuracy.empty() ? std::string("-") : fmt::format("{:.2f}", at->second);
    };
    table.rows.push_back({run.name, outcome_of(run), share(accuracy.begin()),
                          share(accuracy.empty() ? accuracy.begin() : std::prev(accuracy.end())),
                          number("norm", 0), number("norm", last), number("largest", last),
                          fmt::format("{:.4g}", run.segments.reals("cumulative_perplexity")[last]),
                          fmt::format("{}", run.segments.integers("position")[last])});
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
    return fmt::format("failed at {} tokens: answers {:.2f}, {:.2f} at first", *at,
                       accuracy.at(*at), accuracy.begin()->second);
  return accuracy.empty() ? "finite" : "finite, answers kept";
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
