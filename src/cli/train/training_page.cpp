#include "cli/train/training_page.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/page/page.h"

namespace deltasane::cli {
namespace {

// Columns of metrics.jsonl as curves over the step.
std::map<std::string, plot::Curve> curves_of_metrics(const fs::path& path) {
  std::map<std::string, plot::Curve> curves;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step")) continue;
    for (const auto& [name, value] : row.items()) {
      if (!value.is_number()) continue;
      curves[name].x.push_back(row["step"].get<double>());
      curves[name].y.push_back(value.get<double>());
    }
  }
  return curves;
}

}  // namespace

void write_training_page(const fs::path& folder, const std::string& title) {
  const fs::path metrics = folder / "metrics.jsonl";
  if (!fs::exists(metrics)) return;
  std::map<std::string, plot::Curve> curves = curves_of_metrics(metrics);
  if (curves.empty()) return;
  Page page(title);
  PageTable table{{{"what", true}, {"first"}, {"last"}}, {}};
  const auto add = [&](const char* heading, const char* caption,
                       const std::vector<std::pair<const char*, const char*>>& columns,
                       bool points) {
    plot::Chart chart{.title = heading, .x_label = "step", .y_label = columns[0].second};
    chart.points = points;
    chart.log_y = !points;  // where the numbers span more than a decade
    for (const auto& [name, label] : columns) {
      if (!curves.contains(name)) continue;
      plot::Curve curve = curves[name];
      curve.label = label;
      chart.curves.push_back(curve);
      table.rows.push_back(
          {label, fmt::format("{:.4g}", curve.y.front()), fmt::format("{:.4g}", curve.y.back())});
    }
    return chart.curves.empty() ? PageChart{} : PageChart{chart, caption};
  };
  std::vector<PageChart> charts{
      add("Answers", "Share of held-out problems answered rightly.",
          {{"answer_accuracy", "answer accuracy"}}, true),
      add("Loss", "Of each step's rows, and of held-out text.",
          {{"loss", "loss"}, {"held_out_loss", "held-out loss"}}, false),
      add("Gradient norm", "Before it is clipped.", {{"gradient_length", "gradient norm"}}, false),
      add("Learning rate", "As scheduled.", {{"rate", "rate"}}, false),
      add("Speed", "Tokens a second, of each step.", {{"tokens_per_s", "tokens/s"}}, false)};
  page.add(table);
  for (const PageChart& chart : charts)
    if (!chart.chart.curves.empty()) page.add(chart);
  replace_file(folder / "report.html", page.html());
}

}  // namespace deltasane::cli
