#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "eval/run/csv_cells.h"
#include "eval/run/score_table.h"

namespace deltasane::eval {
namespace {

std::string run_heading(const ScoreTable& table, size_t run) {
  if (!table.alphas[run]) return table.runs[run];
  return fmt::format("{} (alpha {:g})", table.runs[run], *table.alphas[run]);
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{:.2f} to {:.2f}", interval.low, interval.high);
}

// A line of a Markdown table; cell(run) gives its cells.
template <class Cell>
std::string markdown_line(const std::string& head, size_t runs, const Cell& cell) {
  std::string line = "| " + head + " |";
  for (size_t run = 0; run < runs; ++run) line += " " + cell(run) + " |";
  return line + "\n";
}

std::string markdown_head(const ScoreTable& table, const std::string& corner) {
  return markdown_line(corner, table.runs.size(),
                       [&](size_t run) { return run_heading(table, run); }) +
         markdown_line("---", table.runs.size(), [](size_t) { return std::string("--:"); });
}

template <class Cell>
std::string csv_line(const std::string& head, size_t runs, const Cell& cell) {
  std::string line = csv_cell(head);
  for (size_t run = 0; run < runs; ++run) line += "," + csv_cell(cell(run));
  return line + "\n";
}

nlohmann::ordered_json interval_json(const Interval& interval) {
  return {interval.low, interval.high};
}

}  // namespace

std::string p_text(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }

std::string to_markdown(const Comparison& c) {
  const ScoreTable& table = c.table;
  const size_t runs = table.runs.size();
  const auto line = [&](const std::string& head, const auto& cell) {
    return markdown_line(head, runs, cell);
  };
  const auto versus = [&](const std::string& head, const auto& cell) {
    return line(head, [&](size_t run) {
      return c.against[run] ? cell(run, *c.against[run]) : std::string("-");
    });
  };
  std::string text = markdown_head(table, "majority vote, %");
  for (size_t b = 0; b < table.benchmarks.size(); ++b)
    text += line(table.benchmarks[b],
                 [&](size_t run) { return fmt::format("{:.2f}", table.accuracy[b][run]); });
  text += line("**average**", [&](size_t run) { return fmt::format("{:.2f}", c.average[run]); });
  const std::string level = fmt::format("{:g} %", 100 * c.settings.level);
  if (table.has_problems())
    text += line(level + " interval",
                 [&](size_t run) { return interval_text(c.intervals.average[run]); });
  text += versus("difference", [&](size_t run, const Against&) {
    return fmt::format("{:+.2f}", c.average[run] - c.average[0]);
  });
  if (table.has_problems())
    text += versus(level + " interval of it", [](size_t, const Against& against) {
      return interval_text(against.difference);
    });
  if (table.benchmarks.size() > 1)
    text += versus("p, paired t-test over benchmarks",
                   [](size_t, const Against& against) { return p_text(against.t->p); });
  if (!table.has_problems()) return text;
  text += versus("solved by it alone / by the first alone", [](size_t, const Against& against) {
    return fmt::format("{} / {}", against.only_this, against.only_baseline);
  });
  text += versus("p, McNemar over problems",
                 [](size_t, const Against& against) { return p_text(against.mcnemar); });
  text += "\n" + markdown_head(table, "single samples right / without an answer, %");
  for (size_t b = 0; b < table.benchmarks.size(); ++b)
    text += line(table.benchmarks[b], [&](size_t run) {
      return fmt::format("{:.2f} / {:.2f}", table.pass_at_1[b][run], table.unparsed[b][run]);
    });
  return text;
}

std::string to_csv(const Comparison& c) {
  const ScoreTable& table = c.table;
  const auto line = [&](const std::string& head, const auto& cell) {
    return csv_line(head, table.runs.size(), cell);
  };
  const auto number = [](double value) { return fmt::format("{}", value); };
  const auto versus = [&](const std::string& head, const auto& cell) {
    return line(head,
                [&](size_t run) { return c.against[run] ? cell(*c.against[run]) : std::string(); });
  };
  std::string text = line("benchmark", [&](size_t run) { return table.runs[run]; });
  for (size_t b = 0; b < table.benchmarks.size(); ++b)
    text += line(table.benchmarks[b], [&](size_t run) { return number(table.accuracy[b][run]); });
  text += line("average", [&](size_t run) { return number(c.average[run]); });
  text += line("alpha", [&](size_t run) {
    return table.alphas[run] ? number(*table.alphas[run]) : std::string();
  });
  if (table.benchmarks.size() > 1)
    text += versus("p t-test", [&](const Against& against) { return number(against.t->p); });
  if (!table.has_problems()) return text;
  text += versus("p McNemar", [&](const Against& against) { return number(against.mcnemar); });
  text += line("average low", [&](size_t run) { return number(c.intervals.average[run].low); });
  text += line("average high", [&](size_t run) { return number(c.intervals.average[run].high); });
  text += versus("difference low", [&](const Against& a) { return number(a.difference.low); });
  text += versus("difference high", [&](const Against& a) { return number(a.difference.high); });
  return text;
}

std::string to_json(const Comparison& c) {
  const ScoreTable& table = c.table;
  nlohmann::ordered_json json{{"level", c.settings.level},
                              {"resamples", c.settings.resamples},
                              {"benchmarks", table.benchmarks},
                              {"runs", nlohmann::ordered_json::array()}};
  for (size_t run = 0; run < table.runs.size(); ++run) {
    nlohmann::ordered_json one{{"name", table.runs[run]}, {"alpha", nullptr}};
    if (table.alphas[run]) one["alpha"] = *table.alphas[run];
    one["average"] = c.average[run];
    if (table.has_problems()) one["average_interval"] = interval_json(c.intervals.average[run]);
    for (size_t b = 0; b < table.benchmarks.size(); ++b) {
      one["accuracy"].push_back(table.accuracy[b][run]);
      if (!table.has_problems()) continue;
      one["accuracy_interval"].push_back(interval_json(c.intervals.accuracy[b][run]));
      one["pass_at_1"].push_back(table.pass_at_1[b][run]);
      one["unparsed"].push_back(table.unparsed[b][run]);
    }
    if (c.against[run]) {
      const Against& against = *c.against[run];
      nlohmann::ordered_json& to = one["against_first"];
      to["difference"] = c.average[run] - c.average[0];
      if (against.t) {  // JSON has no infinity
        to["t"] = std::isfinite(against.t->t) ? nlohmann::ordered_json(against.t->t)
                                              : nlohmann::ordered_json();
        to["degrees"] = against.t->degrees;
        to["p_t_test"] = against.t->p;
      }
      if (table.has_problems()) {
        to["difference_interval"] = interval_json(against.difference);
        to["only_this"] = against.only_this;
        to["only_first"] = against.only_baseline;
        to["p_mcnemar"] = against.mcnemar;
      }
    }
    json["runs"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

std::string alpha_figure(const Comparison& c, const fs::path& svg) {
  const ScoreTable& table = c.table;
  std::vector<size_t> with_alpha;
  for (size_t run = 0; run < table.runs.size(); ++run)
    if (table.alphas[run]) with_alpha.push_back(run);
  if (with_alpha.empty())
    fail(Fault::usage, "figure: expected a run with SANE, found none with an alpha");
  std::ranges::sort(with_alpha, {}, [&](size_t run) { return *table.alphas[run]; });
  std::string quoted;  // in single quotes a doubled one is a quote
  for (const char ch : svg.string()) quoted += ch == '\'' ? std::string("''") : std::string(1, ch);
  std::string text = fmt::format(
      "set terminal svg size 640,400 dynamic\nset output '{}'\nset xlabel 'alpha'\n"
      "set ylabel 'average accuracy, %'\nset grid\nset offsets 0.5, 0.5, 0.5, 0.5\nset key bottom right\n$runs << END\n",
      quoted);
  for (const size_t run : with_alpha)
    text += fmt::format("{} {} {} {}\n", *table.alphas[run], c.average[run],
                        c.intervals.average[run].low, c.intervals.average[run].high);
  text += "END\nplot $runs with yerrorbars pt 7 title 'with SANE'";
  if (!table.alphas[0]) text += fmt::format(", {} with lines dt 2 title 'baseline'", c.average[0]);
  return text + "\n";
}

}  // namespace deltasane::eval
