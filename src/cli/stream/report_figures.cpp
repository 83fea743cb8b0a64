#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/stream/report.h"
#include "cli/stream/run_curves.h"
#include "eval/stream/stream_folder.h"
#include "infer/state_file.h"
#include "plot/figure.h"
#include "plot/gnuplot.h"
#include "probe/memory_shapes.h"
#include "probe/state_grid.h"

namespace deltasane::cli {
namespace {

constexpr double paper_high = 100;  // the usual top of the colours
constexpr int64_t panel_pixels = 256;

// How many segments local perplexity is of: up to 50, as in the literature, and few enough that it
// differs from the cumulative one.
size_t local_window(const std::vector<ReportRun>& runs) {
  int64_t least = runs[0].segments.rows;
  for (const ReportRun& run : runs)
    least = std::min(least, run.segments.rows / std::max<int64_t>(streams_in(run), 1));
  return size_t(std::clamp<int64_t>(least / 20, 1, 50));
}

// Of losses: the perplexity of each segment and those before it in the window.
plot::Curve local_perplexity(plot::Curve curve, size_t window) {
  std::vector<double> out;
  double sum = 0;
  for (size_t i = 0; i < curve.y.size(); ++i) {
    sum += curve.y[i];
    if (i >= window) sum -= curve.y[i - window];
    out.push_back(std::exp(sum / double(std::min(i + 1, window))));
  }
  curve.y = out;
  return curve;
}

// Norms of all heads of one run, first stream, those that end largest first.
plot::Chart heads_of(const ReportRun& run) {
  std::map<std::pair<int64_t, int64_t>, plot::Curve> heads;
  for (size_t i = 0; i < size_t(run.heads.rows); ++i) {
    if (run.heads.integers("stream")[i] != 0) continue;
    const int64_t layer = run.heads.integers("layer")[i], head = run.heads.integers("head")[i];
    plot::Curve& curve = heads[{layer, head}];
    curve.label = fmt::format("{}.{}", layer, head);
    curve.x.push_back(double(run.heads.integers("position")[i]));
    curve.y.push_back(run.heads.reals("norm")[i]);
  }
  plot::Chart chart{.title = "State norm per head (layer.head): " + run.name,
                    .x_label = "tokens read",
                    .y_label = "Frobenius norm",
                    .log_y = true};
  for (auto& [place, curve] : heads) chart.curves.push_back(std::move(curve));
  std::ranges::stable_sort(chart.curves, [](const plot::Curve& a, const plot::Curve& b) {
    return a.y.back() > b.y.back();
  });
  return chart;
}

std::vector<const ReportRun*> pointers_to(const std::vector<ReportRun>& runs) {
  std::vector<const ReportRun*> all;
  for (const ReportRun& run : runs) all.push_back(&run);
  return all;
}

plot::Chart overlaid(const std::vector<ReportRun>& runs, std::string_view column, const char* title,
                     const char* y_label) {
  plot::Chart chart{.title = title, .x_label = "tokens read", .y_label = y_label};
  for (const ReportRun& run : runs)
    for (int64_t stream = 0; stream < streams_in(run); ++stream)
      chart.curves.push_back(curve_of(run.segments, column, stream, label_of(run, stream)));
  add_overflows(pointers_to(runs), chart);
  return chart;
}

// Norms of the layers of one run, first stream; of many layers, those that end largest.
plot::Chart layers_of(const ReportRun& run) {
  std::map<int64_t, std::map<int64_t, double>> squares;
  const auto& streams = run.heads.integers("stream");
  for (size_t i = 0; i < size_t(run.heads.rows); ++i)
    if (streams[i] == 0)
      squares[run.heads.integers("layer")[i]][run.heads.integers("position")[i]] +=
          std::pow(run.heads.reals("norm")[i], 2);
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [layer, norms] : squares) order.push_back({norms.rbegin()->second, layer});
  std::ranges::sort(order, std::greater<>());
  constexpr size_t most = 12;
  const bool cut = order.size() > most;
  if (cut) order.resize(most);
  std::ranges::sort(order, {}, [](const auto& entry) { return entry.second; });
  plot::Chart chart{
      .title = fmt::format("State norm per layer: {}{}", run.name,
                           cut ? fmt::format(" (the {} largest)", most) : std::string()),
      .x_label = "tokens read",
      .y_label = "Frobenius norm"};
  chart.log_y = true;
  for (const auto& [last, layer] : order) {
    plot::Curve curve{fmt::format("layer {}", layer), {}, {}};
    for (const auto& [position, square] : squares[layer])
      curve.x.push_back(double(position)), curve.y.push_back(std::sqrt(square));
    chart.curves.push_back(curve);
  }
  return chart;
}

plot::HeatPanel panel_of(const probe::StateGrid& grid, int64_t position) {
  const plot::HeatPanel whole{tokens_text(position) + " tokens", grid.rows, grid.columns,
                              grid.values};
  return plot::downsampled(whole, panel_pixels, panel_pixels);
}

// Axes count layers and heads where all are alike. Elsewhere bands are named, and lines keep the heads
// apart where these are not too many.
void set_axes(const probe::StateGrid& grid, const StateLayout& layout, plot::HeatMap& map) {
  const plot::HeatPanel& panel = map.panels[0];
  if (grid.is_regular) {
    map.rows_per_unit = double(panel.rows) / double(layout.layers());
    map.columns_per_unit = double(panel.columns) / double(layout.most_heads());
    return;
  }
  constexpr size_t most_blocks = 256;
  const double down = std::ceil(double(grid.rows) / double(panel_pixels));
  const double across = std::ceil(double(grid.columns) / double(panel_pixels));
  map.x_label = "key, heads side by side";
  map.columns_per_unit = 1 / across;
  for (const probe::StateGrid::Band& band : grid.bands) {
    const double from = double(band.row) / down, to = double(band.row + band.rows) / down;
    map.bands.push_back({fmt::to_string(band.layer), from, to});
    if (band.row > 0) map.lines.push_back({0, from, double(panel.columns), from});
    if (grid.blocks.size() > most_blocks) continue;
    for (const probe::StateGrid::Block& block : grid.blocks)
      if (block.row == band.row && block.column > 0)
        map.lines.push_back(
            {double(block.column) / across, from, double(block.column) / across, to});
  }
}

struct StateMaps {
  const ReportRun* run;
  plot::HeatMap map;
};

// The snapshots of each run's first stream; of many, eight spread evenly.
std::vector<StateMaps> state_maps(const std::vector<ReportRun>& runs) {
  std::vector<StateMaps> all;
  double largest = 0;
  for (const ReportRun& run : runs) {
    constexpr size_t most = 8;
    std::vector<fs::path> chosen;
    for (const auto& [position, path] : snapshots_of(run)) chosen.push_back(path);
    while (chosen.size() > most) chosen.erase(chosen.begin() + int64_t(chosen.size()) / 2);
    if (chosen.empty()) continue;
    plot::HeatMap map{.title = "|S| of all layers and heads: " + run.name,
                      .x_label = "head",
                      .y_label = "layer",
                      .colour_label = "|S|"};
    for (const fs::path& path : chosen) {
      const MappedFile file(path);
      const SequenceState state = read_state(file.bytes(), path.string()).state;
      const probe::StateGrid grid = probe::grid_of(state);
      if (grid.values.empty()) break;  // no memory to show
      map.panels.push_back(panel_of(grid, state.position));
      if (map.panels.size() == 1) set_axes(grid, state.layout(), map);
      for (const float value : map.panels.back().values)
        if (double(value) > largest) largest = double(value);
    }
    if (!map.panels.empty()) all.push_back({&run, map});
  }
  // One scale for all, so that runs can be compared: four decades, the top at least 100.
  const double high =
      std::clamp(std::pow(10, std::ceil(std::log10(std::max(largest, 1e-30)))), paper_high, 1e6);
  for (StateMaps& one : all) one.map.high = high, one.map.low = 1e-2;
  return all;
}

bool has_rows(const std::vector<ReportRun>& runs) {
  return std::ranges::any_of(runs, [](const ReportRun& run) { return run.probes.rows > 0; });
}

}  // namespace

ReportRun open_run(const fs::path& folder) {
  if (!fs::exists(folder / segments_file))
    fail(Fault::file, folder, ": expected a folder of `deltasane stream`, found no ",
         segments_file);
  ReportRun run{folder,
                "",
                probe::read_records(folder / segments_file),
                probe::read_records(folder / heads_file),
                probe::read_records(folder / probes_file),
                {}};
  for (const probe::RecordTable* table : {&run.segments, &run.heads, &run.probes})
    if (!table->damage.empty()) run.damages.push_back(table->damage);
  const bool has_memory = !probe::MemoryShapes(run.segments).empty();
  if (run.segments.rows == 0 || (has_memory && run.heads.rows == 0))
    fail(Fault::file, folder, ": expected at least one segment, found none; let the stream run on");
  return run;
}

std::vector<ReportFigure> draw_figures(const std::vector<ReportRun>& runs, const fs::path& folder) {
  std::vector<ReportFigure> figures;
  const bool draws = plot::has_gnuplot();
  const auto add = [&](const plot::Chart& chart, const std::string& name,
                       const std::string& caption) {
    if (draws) plot::draw(chart, folder, name);
    figures.push_back({name, caption, chart.title, chart});
  };
  if (has_rows(runs)) {
    plot::Chart accuracy{
        .title = "Accuracy from the state", .x_label = "tokens read", .y_label = "accuracy"};
    accuracy.points = true;
    accuracy.y_high = 1;
    for (const ReportRun& run : runs)
      for (int64_t one = 0; one < streams_in(run); ++one)
        accuracy.curves.push_back(curve_of(run.probes, "accuracy", one, label_of(run, one)));
    add_overflows(pointers_to(runs), accuracy);
    add(accuracy, "accuracy", "Share of problems answered rightly from that state.");
  }
  const bool has_memory =
      std::ranges::any_of(runs, [](const ReportRun& run) { return run.heads.rows > 0; });
  if (has_memory) {
    plot::Chart norm = overlaid(runs, "norm", "Norm of the state", "Frobenius norm");
    norm.log_y = true;
    add(norm, "state_norm", "Frobenius norm of the whole state, all layers and heads.");
    plot::Chart largest = overlaid(runs, "largest", "Largest entry of the state", "max |S|");
    largest.log_y = true;
    add(largest, "largest_entry", "Largest |S| of all layers and heads.");
  }
  const size_t window = local_window(runs);
  plot::Chart local = overlaid(runs, "loss", "Local perplexity", "perplexity");
  for (plot::Curve& curve : local.curves) curve = local_perplexity(curve, window);
  local.log_y = true;
  add(local, "local_perplexity",
      window == 1 ? "Perplexity of each segment."
                  : fmt::format("Perplexity of the last {} segments.", window));
  plot::Chart cumulative =
      overlaid(runs, "cumulative_perplexity", "Cumulative perplexity", "perplexity");
  cumulative.log_y = true;
  add(cumulative, "cumulative_perplexity", "Perplexity of all tokens so far.");
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].heads.rows == 0) continue;
    add(layers_of(runs[i]), fmt::format("layer_norms_{}", i + 1),
        "Growth per layer: " + runs[i].name + ".");
    const plot::Chart heads = heads_of(runs[i]);
    figures.push_back({"", "The heads with the largest norms at the end; others in the list.",
                       heads.title, heads, 6});
  }
  if (!draws) return figures;
  for (const StateMaps& one : state_maps(runs)) {
    const std::string name = fmt::format("state_maps_{}", one.run - runs.data() + 1);
    plot::draw(one.map, folder, name);
    figures.push_back({
        name,
        fmt::format("|S| at the snapshots of {}: layers below each other, heads side by side, a "
                    "pixel is the largest entry of its block. All runs share the colours, from "
                    "{:g} or less to {:g} or more.",
                    one.run->name, one.map.low, one.map.high),
        one.map.title});
  }
  return figures;
}

}  // namespace deltasane::cli
