#include "cli/stream/run_curves.h"

#include <fmt/format.h>

#include "eval/stream/stream_folder.h"

namespace deltasane::cli {

plot::Curve curve_of(const probe::RecordTable& table, std::string_view column, int64_t number,
                     const std::string& label) {
  plot::Curve curve{label, {}, {}};
  const auto &streams = table.integers("stream"), &positions = table.integers("position");
  const std::vector<double>& values = table.reals(column);
  for (size_t i = 0; i < streams.size(); ++i)
    if (streams[i] == number) curve.x.push_back(double(positions[i])), curve.y.push_back(values[i]);
  return curve;
}

int64_t streams_in(const ReportRun& run) { return run.segments.count_setting("streams"); }

std::string label_of(const ReportRun& run, int64_t number) {
  return streams_in(run) > 1 ? fmt::format("{}, stream {}", run.name, number) : run.name;
}

void add_overflows(const std::vector<const ReportRun*>& runs, plot::Chart& chart) {
  for (const ReportRun* const run : runs)
    for (size_t i = 0; i < size_t(run->segments.rows); ++i)
      if (run->segments.integers("overflow")[i])
        chart.marks.push_back(double(run->segments.integers("position")[i]));
  chart.mark_label = "overflow";
}

std::map<int64_t, fs::path> snapshots_of(const ReportRun& run) {
  std::map<int64_t, fs::path> snapshots;
  if (fs::is_directory(run.folder / snapshots_folder))
    for (const auto& entry : fs::directory_iterator(run.folder / snapshots_folder))
      if (const auto name = snapshot_named(entry.path()); name && name->stream == 0)
        snapshots[name->position] = entry.path();
  return snapshots;
}

std::string tokens_text(int64_t tokens) {
  if (tokens >= 1 << 20 && tokens % (1 << 20) == 0) return fmt::format("{}M", tokens >> 20);
  if (tokens >= 1 << 10 && tokens % (1 << 10) == 0) return fmt::format("{}K", tokens >> 10);
  return fmt::format("{}", tokens);
}

}  // namespace deltasane::cli
