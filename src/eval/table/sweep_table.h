// Scores of a baseline and of SANE with several alphas, without a prefix and after one: the table of the
// paper. Benchmarks across, models down.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/run/score_table.h"

namespace deltasane::eval {

struct SweepRow {
  std::optional<double> alpha;  // none: the baseline
  std::vector<double> scores;   // percent, by benchmark; none: the model has no scores here
  bool overflowed = false;      // why it has none: the prefix ended in an overflow

  bool has_scores() const { return !scores.empty(); }
  double average() const;    // of a row that has scores
  std::string name() const;  // "baseline", "alpha 3"
};

struct SweepTable {
  std::vector<std::string> benchmarks;
  std::string prefix;  // "100M tokens"; empty where nothing was asked after one
  std::vector<SweepRow> plain,
      after;  // without the prefix and after it: the baseline, then by alpha

  const SweepRow* baseline() const;  // without a prefix; null where there is none
};

// Runs with and without one prefix, in any order. Of each alpha at most one with and one without.
SweepTable sweep_table(std::span<const Run> runs, Unfinished unfinished);

// One of three forms, by its first line:
//   prefix,model,alpha,benchmark,score...       a line per score; rows "Avg" are not read
//   prefix,model,alpha,BENCHMARK,...,average... a line per model, as to_csv writes it
//   benchmark,RUN,RUN...                        a line per benchmark; alpha-N is the name of a run with SANE
// A prefix of "" or "0" is none; a score of "overflow" says that the prefix ended so.
SweepTable sweep_table_from_csv(const std::string& text, const std::string& name);

// Notes that a model has no scores after the prefix because it overflowed there.
void add_overflow(SweepTable& table, std::optional<double> alpha);

// Two-sided paired t-test over the benchmarks; none where a row has no scores, or there is one benchmark.
std::optional<PairedT> test_rows(const SweepRow& first, const SweepRow& second);

}  // namespace deltasane::eval
