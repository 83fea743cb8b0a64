// The figures of the paper, from records of streams:
//
//   long_perplexity_I    run I: above, the perplexity of each token, its mean over 50 tokens and the
//                        cumulative one; below, the norm of the state on a log axis, an overflow marked
//   perplexity_panels    a row for each corpus, baselines and SANE side by side: local solid, cumulative
//                        dashed; local values beyond 4 standard deviations are drawn at that limit
//   state_evolution_I    run I: heat maps of |S| at several positions, a row for each layer, heads side by
//                        side, one fixed scale
//   small_entries        the share of entries with |S| < 0.1
//
// The mean over 50 tokens is that of their losses, as in any perplexity; the mean of perplexities would be
// that of the worst token. A curve of many tokens is drawn by its range in each of some hundred stretches, so
// that spikes of single tokens are seen. Of several streams in a run the first is drawn.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.h"
#include "cli/stream/report.h"
#include "cli/stream/run_curves.h"
#include "eval/stream/record_columns.h"
#include "eval/stream/stream_folder.h"
#include "infer/state_file.h"
#include "plot/figure.h"
#include "probe/loss_curve.h"
#include "probe/memory_shapes.h"

namespace deltasane::cli {
namespace {

constexpr int64_t most_stretches = 1000;
constexpr double clipped_at = 4;  // standard deviations
constexpr int token_colour = 5, local_colour = 0, cumulative_colour = 6;

// Perplexities of one run, as curves.
struct Perplexities {
  plot::Curve token, local, cumulative;
  double low = 0, high = 0;  // of local ones within so many standard deviations
  bool of_segments = false;  // a run from before losses of single tokens were recorded
};

void add_range(plot::Curve& curve, double position, double low, double high) {
  curve.x.insert(curve.x.end(), {position, position});
  curve.y.insert(curve.y.end(), {std::exp(low), std::exp(high)});
}

void set_limits(Perplexities& found, double mean, double deviation) {
  found.low = mean - clipped_at * deviation, found.high = mean + clipped_at * deviation;
}

Perplexities of_segments(const ReportRun& run) {
  Perplexities found;
  found.of_segments = true;
  found.token = curve_of(run.segments, "perplexity", 0, "each segment");
  found.local = found.token;
  found.cumulative = curve_of(run.segments, "cumulative_perplexity", 0, "cumulative");
  double sum = 0, squares = 0;
  for (const double y : found.local.y) sum += y, squares += y * y;
  const double mean = sum / double(found.local.y.size());
  set_limits(found, mean,
             std::sqrt(std::max(0.0, squares / double(found.local.y.size()) - mean * mean)));
  return found;
}

Perplexities perplexities_of(const ReportRun& run) {
  if (!fs::exists(run.folder / losses_file)) return of_segments(run);
  const probe::RecordTable losses = probe::read_records(run.folder / losses_file);
  if (!losses.damage.empty())
    fmt::print(stderr, "{}; going by the rows before it\n", losses.damage);
  const probe::LossCurve curve = probe::loss_curve(losses, 0, most_stretches);
  if (curve.tokens == 0) return of_segments(run);
  Perplexities found;
  found.token.label = "each token";
  found.local.label = fmt::format("mean over {} tokens", probe::local_tokens);
  found.cumulative.label = "cumulative";
  for (const probe::LossRange& range : curve.ranges) {
    const auto position = double(range.position);
    add_range(found.token, position, range.token_low, range.token_high);
    add_range(found.local, position, range.local_low, range.local_high);
    found.cumulative.x.push_back(position);
    found.cumulative.y.push_back(std::exp(range.cumulative));
  }
  set_limits(found, curve.local_mean, curve.local_deviation);
  return found;
}

double last_position(const ReportRun& run) {
  return double(std::ranges::max(run.segments.integers("position")));
}

plot::ChartGrid long_perplexity(const ReportRun& run, Perplexities perplexities) {
  plot::ChartGrid grid{.title = run.name, .columns = 1};
  plot::Chart above{.title = "Perplexity", .x_label = "tokens read", .y_label = "perplexity"};
  above.log_y = true;
  perplexities.token.colour = token_colour, perplexities.token.width = 1;
  perplexities.local.colour = local_colour, perplexities.local.width = 1;
  perplexities.cumulative.colour = cumulative_colour, perplexities.cumulative.dashed = true;
  above.curves = {perplexities.token, perplexities.local, perplexities.cumulative};
  if (perplexities.of_segments) above.curves.erase(above.curves.begin() + 1);
  add_overflows({&run}, above);
  plot::Chart below{
      .title = "Norm of the state", .x_label = "tokens read", .y_label = "Frobenius norm"};
  below.log_y = true;
  below.curves = {curve_of(run.segments, "norm", 0, "all layers and heads")};
  add_overflows({&run}, below);
  if (!below.marks.empty())
    below.mark_label = fmt::format("overflow after {:.0f} tokens", below.marks[0]);
  above.x_high = below.x_high = last_position(run);
  grid.charts = {above, below};
  return grid;
}

bool is_baseline(const ReportRun& run) { return run.segments.setting("sane").starts_with("no "); }

// Runs that read one corpus, with SANE or without.
plot::Chart perplexity_panel(const std::vector<const ReportRun*>& runs,
                             const std::map<const ReportRun*, Perplexities>& perplexities) {
  plot::Chart chart{.title = is_baseline(*runs[0]) ? "baseline" : "SANE",
                    .x_label = "tokens read",
                    .y_label = "perplexity"};
  for (size_t i = 0; i < runs.size(); ++i) {
    const Perplexities& found = perplexities.at(runs[i]);
    plot::Curve local = found.local, cumulative = found.cumulative;
    local.label = "", cumulative.label = runs[i]->name;
    local.colour = cumulative.colour = int(i);
    local.width = 1, local.pale = true;
    cumulative.width = 3, cumulative.dashed = true;
    for (double& y : local.y)
      if (std::isfinite(y)) y = std::clamp(y, found.low, found.high);
    chart.curves.insert(chart.curves.begin() + int64_t(i), std::move(local));
    chart.curves.push_back(std::move(cumulative));  // above all local ones
    chart.x_high = std::max(chart.x_high, last_position(*runs[i]));
  }
  add_overflows(runs, chart);
  return chart;
}

std::vector<std::string> parts_of(const std::string& corpus) {
  std::vector<std::string> parts;
  std::istringstream text(corpus);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

// Descriptions of corpora without the parts that all of them have, and not longer than a panel.
std::vector<std::string> short_names(const std::vector<std::string>& corpora) {
  constexpr size_t longest = 48;
  std::vector<std::string> names;
  for (const std::string& corpus : corpora) {
    std::string name;
    for (const std::string& part : parts_of(corpus)) {
      const bool is_common = std::ranges::all_of(corpora, [&](const std::string& other) {
        const std::vector<std::string> parts = parts_of(other);
        return std::ranges::find(parts, part) != parts.end();
      });
      if (!is_common) name += (name.empty() ? "" : ", ") + part;
    }
    if (name.size() > longest) name = "..." + name.substr(name.size() - longest);
    names.push_back(std::move(name));
  }
  return names;
}

plot::ChartGrid perplexity_panels(const std::vector<ReportRun>& runs,
                                  const std::map<const ReportRun*, Perplexities>& perplexities) {
  std::vector<std::string> corpora;
  std::map<std::pair<std::string, bool>, std::vector<const ReportRun*>> cells;
  for (const ReportRun& run : runs) {
    const std::string& corpus = run.segments.setting("corpus");
    if (std::ranges::find(corpora, corpus) == corpora.end()) corpora.push_back(corpus);
    cells[{corpus, is_baseline(run)}].push_back(&run);
  }
  const bool has_both =
      std::ranges::any_of(runs, is_baseline) && !std::ranges::all_of(runs, is_baseline);
  plot::ChartGrid grid{.title = "Perplexity: local (pale, clipped at 4 sigma) and cumulative (dashed)",
                       .columns = has_both ? 2 : 1};
  grid.panel_width = has_both ? 640 : 900;
  const std::vector<std::string> names = short_names(corpora);
  for (size_t i = 0; i < corpora.size(); ++i)
    for (const bool baseline : {true, false}) {
      const auto cell = cells.find({corpora[i], baseline});
      if (cell == cells.end() && has_both) grid.charts.push_back({});
      if (cell == cells.end()) continue;
      grid.charts.push_back(perplexity_panel(cell->second, perplexities));
      if (corpora.size() > 1) grid.charts.back().title += ": " + names[i];
    }
  return grid;
}

// A row for each layer that has a memory: |S| of its heads, one after another.
plot::HeatPanel layer_rows(const SequenceState& state, std::vector<int64_t>& layers) {
  std::map<int64_t, std::vector<float>> rows;
  for (const StateHead& head : state.layout().heads())
    for (const float entry : state.of(head)) rows[head.layer].push_back(std::abs(entry));
  plot::HeatPanel panel{tokens_text(state.position) + " tokens", int64_t(rows.size()), 0, {}};
  for (const auto& [layer, values] : rows)
    panel.columns = std::max(panel.columns, int64_t(values.size()));
  layers.clear();
  for (const auto& [layer, values] : rows) {
    layers.push_back(layer);
    panel.values.insert(panel.values.end(), values.begin(), values.end());
    panel.values.resize(size_t(panel.columns) * layers.size(),
                        std::numeric_limits<float>::quiet_NaN());
  }
  return panel;
}

// Those of `there` nearest to the paper's positions, where these are different ones; else the first, the
// last and two between them.
std::vector<int64_t> chosen_positions(const std::vector<int64_t>& there) {
  if (there.size() <= 4) return there;
  const auto nearest = [&](double wanted) {
    return *std::ranges::min_element(
        there, {}, [&](int64_t position) { return std::abs(std::log(double(position) / wanted)); });
  };
  const auto four = [&](std::initializer_list<double> wanted) {
    std::vector<int64_t> found;
    for (const double position : wanted) found.push_back(nearest(position));
    found.erase(std::ranges::unique(found).begin(), found.end());
    return found;
  };
  std::vector<int64_t> found = four({4096, 528e3, 1.5e6, 10e6});
  const auto first = double(there.front()), last = double(there.back());
  if (found.size() < 4)
    found = four({first, std::cbrt(first * first * last), std::cbrt(first * last * last), last});
  return found;
}

plot::HeatMap state_evolution(const ReportRun& run, const PaperFigureOptions& options) {
  constexpr int64_t panel_columns = 512;
  const std::map<int64_t, fs::path> snapshots = snapshots_of(run);
  std::vector<int64_t> there;
  std::string names;
  for (const auto& [position, path] : snapshots)
    there.push_back(position), names += cat(names.empty() ? "" : ",", position);
  plot::HeatMap map{.title = "|S|: " + run.name,
                    .x_label = "head",
                    .y_label = "layer",
                    .colour_label = "|S|",
                    .low = 0,
                    .high = options.scale,
                    .linear = true,
                    .columns = 2,
                    .panel_width = 520,
                    .panel_height = 330};
  for (const int64_t position :
       options.positions.empty() ? chosen_positions(there) : options.positions) {
    const auto at = snapshots.find(position);
    if (at == snapshots.end())
      fail(Fault::usage, "--positions: expected snapshots of ", run.name, " (", names, "), found ",
           position);
    const MappedFile file(at->second);
    const SequenceState state = read_state(file.bytes(), at->second.string()).state;
    std::vector<int64_t> layers;
    const plot::HeatPanel whole = layer_rows(state, layers);
    if (whole.values.empty()) break;  // no memory to show
    map.panels.push_back(plot::downsampled(whole, whole.rows, panel_columns));
    if (map.panels.size() > 1) continue;
    map.columns_per_unit =
        double(map.panels[0].columns) / double(std::max<int64_t>(1, state.layout().most_heads()));
    for (size_t i = 0; i < layers.size(); ++i)
      map.bands.push_back({fmt::format("L{}", layers[i]), double(i), double(i) + 1});
  }
  return map;
}

// Of the whole state: heads count by their entries.
plot::Curve small_entries(const ReportRun& run) {
  plot::Curve curve{run.name, {}, {}};
  if (!run.heads.has(small_entries_column)) return curve;
  const probe::MemoryShapes shapes(run.segments);
  std::map<int64_t, std::pair<double, double>> counts;  // entries below, and all
  const probe::RecordTable& heads = run.heads;
  for (size_t i = 0; i < size_t(heads.rows); ++i) {
    if (heads.integers("stream")[i] != 0) continue;
    const auto entries =
        double(shapes.entries(heads.integers("layer")[i], heads.integers("head")[i]));
    auto& [below, all] = counts[heads.integers("position")[i]];
    below += entries * heads.reals(small_entries_column)[i], all += entries;
  }
  for (const auto& [position, count] : counts)
    curve.x.push_back(double(position)), curve.y.push_back(100 * count.first / count.second);
  return curve;
}

}  // namespace

std::vector<ReportFigure> draw_paper_figures(const std::vector<ReportRun>& runs,
                                             const PaperFigureOptions& options,
                                             const fs::path& folder) {
  std::vector<ReportFigure> figures;
  const auto add = [&](const auto& figure, const std::string& name, const std::string& caption) {
    plot::draw(figure, folder, name);
    figures.push_back({name, caption});
  };
  std::map<const ReportRun*, Perplexities> perplexities;
  for (const ReportRun& run : runs) perplexities[&run] = perplexities_of(run);
  for (size_t i = 0; i < runs.size(); ++i)
    add(long_perplexity(runs[i], perplexities[&runs[i]]), fmt::format("long_perplexity_{}", i + 1),
        fmt::format("{}: perplexity, and the norm of the state.", runs[i].name));
  add(perplexity_panels(runs, perplexities), "perplexity_panels",
      "Local perplexity (pale, clipped at 4 standard deviations) and cumulative (dashed).");
  for (size_t i = 0; i < runs.size(); ++i)
    if (const plot::HeatMap map = state_evolution(runs[i], options); !map.panels.empty())
      add(map, fmt::format("state_evolution_{}", i + 1),
          fmt::format("{}: |S|, a row for each layer, heads side by side, a pixel is the largest "
                      "entry of its block; colours from 0 to {:g} or more.",
                      runs[i].name, options.scale));
  plot::Chart small{.title = "Entries with |S| below 0.1",
                    .x_label = "tokens read",
                    .y_label = "share of all entries, %"};
  for (const ReportRun& run : runs)
    if (plot::Curve curve = small_entries(run); !curve.x.empty())
      small.curves.push_back(std::move(curve));
  for (const plot::Curve& curve : small.curves) {
    small.x_high = std::max(small.x_high, curve.x.back());
    small.y_high = std::max(small.y_high, std::min(100.0, 1.1 * std::ranges::max(curve.y)));
  }
  if (!small.curves.empty()) add(small, "small_entries", "Share of entries with |S| below 0.1.");
  return figures;
}

}  // namespace deltasane::cli
