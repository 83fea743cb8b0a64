#include "cli/sweep/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json/array_at.h"
#include "base/json/json_text.h"
#include "cli/eval/table.h"
#include "cli/own_commands.h"
#include "cli/stream/report.h"
#include "cli/sweep/sweep_run.h"
#include "cli/version.h"
#include "plot/gnuplot.h"

namespace deltasane::cli {
namespace {

std::vector<SweepRun> runs_of(const SweepOptions& options) {
  std::vector<SweepRun> all;
  for (const double alpha : options.alphas) all.emplace_back(options, alpha);
  return all;
}

std::string settings_table(const SweepOptions& options) {
  std::string alphas, devices;
  for (const double alpha : options.alphas) alphas += fmt::format("{}{:g}", alphas.empty() ? "" : ", ", alpha);
  for (const std::string& device : options.devices) devices += (devices.empty() ? "" : ", ") + device;
  std::string text = fmt::format("| setting | value |\n|---|---|\n| --alphas | {} |\n", alphas);
  for (const auto& [flag, value] : options.settings())
    if (!value.empty()) text += fmt::format("| {} | {} |\n", flag, value);
  return text + fmt::format("| --devices, --batch | {}; {} |\n| program | {} |\n", devices,
                            options.batch, version_text());
}

// The last loss, held-out loss and answer accuracy that train wrote.
std::string training_table(const std::vector<SweepRun>& runs) {
  std::string text =
      "| run | steps | tokens | last loss | held-out loss | answers, % |\n"
      "|---|--:|--:|--:|--:|--:|\n";
  for (const SweepRun& run : runs) {
    const fs::path path = run.training() / "metrics.jsonl";
    nlohmann::json last = nlohmann::json::object();
    if (fs::exists(path)) {
      std::istringstream lines(read_file(path));
      for (std::string line; std::getline(lines, line);)
        if (const auto row = parse_json<nlohmann::json>(line); row.is_object())
          last.update(row);
    }
    const auto cell = [&](const char* key, double factor = 1) {
      return last.contains(key) ? fmt::format("{:.4f}", factor * last[key].get<double>()) : "";
    };
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", run.name(),
                        last.value("step", int64_t{0}), last.value("tokens", int64_t{0}),
                        cell("loss"), cell("held_out_loss"), cell("answer_accuracy", 100));
  }
  return text;
}

// The scores of a stage: the table, and accuracy against alpha. The one place that calls `compare`.
std::string scores(const SweepOptions& options, const std::vector<SweepRun>& runs,
                   const std::string& stage) {
  const fs::path out = options.out, table = out / (stage + ".md"), figure = out / (stage + ".svg");
  std::vector<std::string> words{"compare"};
  for (const SweepRun& run : runs)
    if (run.done(stage)) words.push_back(run.answers(stage).string());
  if (words.size() < 3) return "Fewer than two runs have scores.\n";
  words.insert(words.end(), {"--out", table.string()});
  if (plot::has_gnuplot()) words.insert(words.end(), {"--figure", figure.string()});
  run_own(words, options.told_by_commands());
  std::string text = read_file(table);
  if (fs::exists(figure)) text += fmt::format("\n![accuracy against alpha]({})\n", figure.filename().string());
  return text;
}

// What became of each stream; empty where none is done.
std::string stream_table(const std::vector<SweepRun>& runs) {
  std::string text;
  for (const SweepRun& run : runs) {
    if (!run.done("stream")) continue;
    const RunSummary found = summary_of(open_run(run.streaming()));
    text += fmt::format("| {} | {:.4f} | {:.4g} | {:.3g} | {:.3g} | {:.3g} | {} |\n", run.name(),
                        found.loss, found.perplexity, found.first_norm, found.last_norm,
                        found.largest, found.outcome);
  }
  if (text.empty()) return text;
  return "| run | loss | perplexity | norm, first | norm, last | max \\|S\\|, last | outcome |\n"
         "|---|--:|--:|--:|--:|--:|---|\n" +
         text;
}

nlohmann::ordered_json json_of(const RunSummary& found) {
  return {{"tokens", found.tokens},         {"loss", found.loss},
          {"perplexity", found.perplexity}, {"first_norm", found.first_norm},
          {"last_norm", found.last_norm},   {"largest", found.largest},
          {"outcome", found.outcome}};
}

// The figures of all streams. The one place that calls `report`.
std::string streams(const SweepOptions& options, const std::vector<SweepRun>& runs) {
  std::string names, text = stream_table(runs);
  std::vector<std::string> words{"report"};
  for (const SweepRun& run : runs) {
    if (!run.done("stream")) continue;
    words.push_back(run.streaming().string());
    names += (names.empty() ? "" : ",") + run.name();
  }
  if (words.size() < 2) return "";
  if (!plot::has_gnuplot())
    return text + "\nFigures need gnuplot: install gnuplot-nox and run the sweep again.\n";
  const fs::path out = options.out, page = out / "streams.html";
  words.insert(words.end(), {"--names", names, "--out", page.string()});
  run_own(words, options.told_by_commands());
  text += "\n[All streams](streams.html)\n";
  std::vector<std::string> figures;
  for (const auto& entry : fs::directory_iterator(out / "streams-figures"))
    if (entry.path().extension() == ".svg") figures.push_back(entry.path().filename().string());
  std::ranges::sort(figures);
  for (const std::string& name : figures) {
    std::string caption = name.substr(0, name.rfind('.'));
    std::ranges::replace(caption, '_', ' ');
    text += fmt::format("\n![{}](streams-figures/{})\n", caption, name);
  }
  return text;
}

}  // namespace

std::string sweep_json(const SweepOptions& options, const fs::path& page) {
  nlohmann::ordered_json json{{"page", page.string()}, {"runs", nlohmann::ordered_json::array()}};
  std::vector<std::string> scored;
  for (const SweepRun& run : runs_of(options)) {
    array_at(json, "runs")
        .push_back({{"name", run.name()},
                    {"folder", run.folder().string()},
                    {"overflowed", options.streams() && run.overflowed()}});
    if (options.streams() && run.done("stream"))
      json["runs"].back()["stream"] = json_of(summary_of(open_run(run.streaming())));
    for (const char* const stage : {"eval", "eval-after"})
      if (options.asks() && run.done(stage)) scored.push_back(run.answers(stage).string());
    if (options.asks() && options.streams() && run.overflowed())
      scored.push_back(run.streaming().string());
  }
  json["table"] = nullptr;
  if (!scored.empty()) {
    const eval::SweepTable table = read_sweep_table(scored, eval::Unfinished::refuse);
    json["table"] = parse_json<nlohmann::ordered_json>(eval::to_json(table, eval::judge(table)));
  }
  return json.dump(2) + "\n";
}

fs::path write_sweep_page(const SweepOptions& options) {
  const std::vector<SweepRun> runs = runs_of(options);
  std::string page = "# Sweep over alpha\n\n" + settings_table(options);
  if (options.trains()) page += "\n## Training\n\n" + training_table(runs);
  if (options.asks()) page += "\n## Without a prefix\n\n" + scores(options, runs, "eval");
  if (options.streams()) page += "\n## Streams\n\n" + streams(options, runs);
  if (options.asks() && options.streams())
    page += "\n## After the stream\n\n" + scores(options, runs, "eval-after");
  const fs::path path = fs::path(options.out) / "sweep.md";
  replace_file(path, page);
  return path;
}

}  // namespace deltasane::cli
