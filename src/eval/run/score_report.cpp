#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/array_at.h"
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
      array_at(one, "accuracy").push_back(table.accuracy[b][run]);
      if (!table.has_problems()) continue;
      array_at(one, "accuracy_interval").push_back(interval_json(c.intervals.accuracy[b][run]));
      array_at(one, "pass_at_1").push_back(table.pass_at_1[b][run]);
      array_at(one, "unparsed").push_back(table.unparsed[b][run]);
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
    array_at(json, "runs").push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

namespace {

// In gnuplot's single quotes a doubled one is a quote.
std::string in_script_quotes(const std::string& text) {
  std::string quoted;
  for (const char ch : text) quoted += ch == '\'' ? std::string("''") : std::string(1, ch);
  return quoted;
}

// Of an axis: what is drawn, and what its thin bars say.
std::string accuracy_label(const Comparison& c) {
  return "accuracy, %" + (c.intervals.average.empty()
                              ? std::string()
                              : fmt::format(" (bars: {:g} % intervals)", 100 * c.settings.level));
}

std::string alpha_script(const Comparison& c, const std::vector<size_t>& with_alpha) {
  const ScoreTable& table = c.table;
  std::string text =
      "set xlabel 'alpha'\nset ylabel 'average " + accuracy_label(c) + "'\nset grid\n"
      "set offsets 0.5, 0.5, 0.5, 0.5\nset key bottom right\n$runs << END\n";
  for (const size_t run : with_alpha)
    text += fmt::format("{} {} {} {}\n", *table.alphas[run], c.average[run],
                        c.intervals.average[run].low, c.intervals.average[run].high);
  text += "END\nplot $runs with yerrorbars pt 7 title 'with SANE'";
  if (!table.alphas[0]) text += fmt::format(", {} with lines dt 2 title 'baseline'", c.average[0]);
  return text + "\n";
}

// A group of bars for each benchmark, and one for their average.
std::string bar_script(const Comparison& c) {
  const ScoreTable& table = c.table;
  const bool has_intervals = !c.intervals.average.empty();
  const bool has_average = table.benchmarks.size() > 1;
  std::string text = fmt::format(
      "set style data histogram\nset style histogram {}gap 1{}\n"
      "set style fill solid 0.8 border -1\nset errorbars 0.5\nset ylabel '{}'\n"
      "set yrange [0:100]\nset grid ytics\nset key outside top center horizontal noenhanced\n"
      "set xtics noenhanced rotate by -30\nset datafile separator tab\n$runs << END\n",
      has_intervals ? "errorbars " : "", has_intervals ? " lw 1" : "", accuracy_label(c));
  const char* const colours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};
  const auto add = [&](const std::string& name, const auto& score, const auto& interval) {
    text += name;
    for (size_t run = 0; run < table.runs.size(); ++run) {
      text += fmt::format("\t{}", score(run));
      if (has_intervals) text += fmt::format("\t{}\t{}", interval(run).low, interval(run).high);
    }
    text += "\n";
  };
  for (size_t i = 0; i < table.benchmarks.size(); ++i)
    add(
        table.benchmarks[i], [&](size_t run) { return table.accuracy[i][run]; },
        [&](size_t run) { return c.intervals.accuracy[i][run]; });
  if (has_average)
    add(
        "average", [&](size_t run) { return c.average[run]; },
        [&](size_t run) { return c.intervals.average[run]; });
  text += "END\nplot ";
  for (size_t run = 0; run < table.runs.size(); ++run) {
    const size_t column = 2 + run * (has_intervals ? 3 : 1);
    text += fmt::format(
        "{}$runs using {}{} lc rgb '{}' title '{}'", run > 0 ? ", " : "",
        has_intervals ? fmt::format("{}:{}:{}", column, column + 1, column + 2) : cat(column),
        run == 0 ? ":xtic(1)" : "", colours[run % std::size(colours)],
        in_script_quotes(run_heading(table, run)));
  }
  return text + "\n";
}

}  // namespace

std::string score_figure(const Comparison& c, const fs::path& svg) {
  std::vector<size_t> with_alpha;
  for (size_t run = 0; run < c.table.runs.size(); ++run)
    if (c.table.alphas[run]) with_alpha.push_back(run);
  std::ranges::sort(with_alpha, {}, [&](size_t run) { return *c.table.alphas[run]; });
  const bool against_alpha = with_alpha.size() > 1 && !c.intervals.average.empty();
  return fmt::format("set terminal svg size {},400 dynamic background 'white'\nset output '{}'\n",
                     against_alpha || c.table.benchmarks.size() < 5 ? 640 : 1000,
                     in_script_quotes(svg.string())) +
         (against_alpha ? alpha_script(c, with_alpha) : bar_script(c));
}

}  // namespace deltasane::eval
