// Scores of several runs side by side: benchmarks down, runs across, the baseline first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "eval/run/run_folder.h"
#include "eval/statistics.h"

namespace deltasane::eval {

struct ScoreTable {
  std::vector<std::string> benchmarks, runs;
  std::vector<std::optional<double>> alphas;  // [run]; none: without SANE, or not known
  std::vector<std::vector<double>> accuracy;  // [benchmark][run], percent
  // Where the problems are known, and not scores alone:
  std::vector<Outcomes> outcomes;                        // [benchmark][run][problem]
  std::vector<std::vector<double>> pass_at_1, unparsed;  // [benchmark][run], percent
  bool has_problems() const { return !outcomes.empty(); }
};

enum class Unfinished {
  refuse,
  shared,  // only the problems that every run has
};

// All runs must have the same benchmarks, and the same problems in them.
ScoreTable table_of(std::span<const Run> runs, Unfinished unfinished);

// "benchmark,RUN,RUN..." and a row of scores in percent for each benchmark; a row "average" and
// what follows it is not read, so that tables which `csv` wrote can be read again.
ScoreTable table_from_csv(const std::string& text, const std::string& name);

// How a run compares with the first one.
struct Against {
  std::optional<PairedT> t;                  // over benchmarks; none where there is only one
  int64_t only_baseline = 0, only_this = 0;  // problems that one of the two solved
  double mcnemar = 1;
  Interval difference;  // of averages, by bootstrap
};

struct Comparison {
  ScoreTable table;
  BootstrapSettings settings;
  std::vector<double> average;                  // [run]
  BootstrapIntervals intervals;                 // empty without problems
  std::vector<std::optional<Against>> against;  // [run]; none for the first
};

Comparison compare(ScoreTable table, const BootstrapSettings& settings, ThreadPool& threads);

std::string p_text(double p);  // three digits, or "<0.001"

std::string to_markdown(const Comparison& comparison);
std::string to_csv(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

// A gnuplot script, with what is to be drawn in it: of two alphas and more the average accuracy
// against alpha, the baseline a line across; of fewer the accuracy of each run in each benchmark.
std::string score_figure(const Comparison& comparison, const fs::path& svg);

}  // namespace deltasane::eval
