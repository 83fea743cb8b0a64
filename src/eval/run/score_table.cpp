#include "eval/run/score_table.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "eval/run/csv_cells.h"

namespace deltasane::eval {
namespace {

// The rows that every run has judged.
std::vector<int64_t> shared_rows(std::span<const Run> runs, size_t benchmark) {
  std::vector<int64_t> rows;
  for (const auto& [row, problem] : runs[0].benchmarks[benchmark].done)
    if (std::ranges::all_of(
            runs, [&](const Run& run) { return run.benchmarks[benchmark].done.contains(row); }))
      rows.push_back(row);
  return rows;
}

void expect_comparable(std::span<const Run> runs, Unfinished unfinished) {
  for (const Run& run : runs) {
    const auto names_of = [](const Run& one) {
      std::string names;
      for (const RunBenchmark& benchmark : one.benchmarks)
        names += cat(names.empty() ? "" : ", ", benchmark.name);
      return names;
    };
    if (names_of(run) != names_of(runs[0]))
      fail(Fault::file, run.name, ": expected the benchmarks of ", runs[0].name, " (",
           names_of(runs[0]), "), found ", names_of(run));
    if (unfinished == Unfinished::refuse && !run.complete())
      fail(Fault::file, run.name, ": expected a complete run, found ", run.missing(),
           " missing; finish it, or compare what all runs have (partial)");
  }
}

}  // namespace

ScoreTable table_of(std::span<const Run> runs, Unfinished unfinished) {
  require(!runs.empty(), "a table has runs");
  expect_comparable(runs, unfinished);
  ScoreTable table;
  for (const Run& run : runs) {
    table.runs.push_back(run.name);
    table.alphas.push_back(run.sane == "none" ? std::nullopt : std::optional(run.alpha));
  }
  for (size_t b = 0; b < runs[0].benchmarks.size(); ++b) {
    const std::vector<int64_t> rows = shared_rows(runs, b);
    const bool same_rows = std::ranges::all_of(
        runs, [&](const Run& run) { return run.benchmarks[b].done.size() == rows.size(); });
    if (rows.empty() || (!same_rows && unfinished == Unfinished::refuse))
      fail(Fault::file, runs[0].benchmarks[b].name,
           ": expected the same problems in all runs, found ", rows.size(),
           " that all have; partial compares those");
    table.benchmarks.push_back(runs[0].benchmarks[b].title);
    table.outcomes.emplace_back();
    table.accuracy.emplace_back();
    table.pass_at_1.emplace_back();
    table.unparsed.emplace_back();
    for (const Run& run : runs) {
      RunBenchmark part = run.benchmarks[b];
      std::erase_if(part.done,
                    [&](const auto& one) { return !std::ranges::binary_search(rows, one.first); });
      std::vector<uint8_t> solved;
      for (const auto& [row, problem] : part.done) solved.push_back(problem.correct);
      const RunScore score = score_of(part);
      table.outcomes.back().push_back(std::move(solved));
      table.accuracy.back().push_back(score.accuracy);
      table.pass_at_1.back().push_back(score.pass_at_1);
      table.unparsed.back().push_back(score.unparsed);
    }
  }
  return table;
}

ScoreTable table_from_csv(const std::string& text, const std::string& name) {
  ScoreTable table;
  std::istringstream input(text);
  size_t number = 0;
  for (std::string line; std::getline(input, line);) {
    const std::string where = cat(name, ":", ++number);
    const std::vector<std::string> cells = csv_cells(line);
    if (number == 1) {
      if (cells.size() < 2)
        fail(Fault::file, where, ": expected 'benchmark' and the names of runs, found '", line,
             "'");
      table.runs.assign(cells.begin() + 1, cells.end());
      table.alphas.resize(table.runs.size());
      continue;
    }
    if (cells[0] == "average") break;
    if (line.empty()) continue;
    if (cells.size() != table.runs.size() + 1)
      fail(Fault::file, where, ": expected ", table.runs.size() + 1, " cells, found ",
           cells.size());
    table.benchmarks.push_back(cells[0]);
    table.accuracy.emplace_back();
    for (size_t i = 1; i < cells.size(); ++i)
      table.accuracy.back().push_back(score_in(cells[i], where));
  }
  if (table.benchmarks.empty()) fail(Fault::file, name, ": expected rows of scores, found none");
  return table;
}

Comparison compare(ScoreTable table, const BootstrapSettings& settings, ThreadPool& threads) {
  Comparison found;
  found.settings = settings;
  const size_t runs = table.runs.size(), benchmarks = table.benchmarks.size();
  if (table.has_problems()) found.intervals = bootstrap(table.outcomes, settings, threads);
  for (size_t run = 0; run < runs; ++run) {
    double sum = 0;
    std::vector<double> baseline, scores;
    for (const std::vector<double>& row : table.accuracy) {
      sum += row[run];
      baseline.push_back(row[0]);
      scores.push_back(row[run]);
    }
    found.average.push_back(sum / double(benchmarks));
    found.against.emplace_back();
    if (run == 0) continue;
    Against& against = found.against.back().emplace();
    if (benchmarks > 1) against.t = paired_t_test(baseline, scores);
    if (!table.has_problems()) continue;
    for (const Outcomes& outcomes : table.outcomes)
      for (size_t i = 0; i < outcomes[0].size(); ++i) {
        against.only_baseline += outcomes[0][i] > outcomes[run][i];
        against.only_this += outcomes[0][i] < outcomes[run][i];
      }
    against.mcnemar = mcnemar_exact(against.only_baseline, against.only_this);
    against.difference = found.intervals.difference[run];
  }
  found.table = std::move(table);
  return found;
}

}  // namespace deltasane::eval
