#include "eval/table/sweep_table.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "eval/run/csv_cells.h"

namespace deltasane::eval {
namespace {

constexpr const char* overflow_word = "overflow";

void sort_rows(SweepTable& table) {
  for (std::vector<SweepRow>* const rows : {&table.plain, &table.after})
    std::ranges::stable_sort(*rows, {}, [](const SweepRow& row) { return row.alpha.value_or(-1); });
}

SweepRow* find_row(std::vector<SweepRow>& rows, std::optional<double> alpha) {
  const auto at = std::ranges::find(rows, alpha, &SweepRow::alpha);
  return at == rows.end() ? nullptr : &*at;
}

void set_prefix(SweepTable& table, const std::string& prefix, const std::string& where) {
  if (!table.prefix.empty() && table.prefix != prefix)
    fail(Fault::file, where, ": expected the prefix of the others (", table.prefix, "), found ",
         prefix, "; a table has one prefix");
  table.prefix = prefix;
}

std::optional<double> alpha_in(const std::string& cell, const std::string& where) {
  if (cell.empty()) return std::nullopt;
  double alpha = -1;
  const char* const end = cell.data() + cell.size();
  const auto read = std::from_chars(cell.data(), end, alpha);
  if (read.ec != std::errc() || read.ptr != end || !(alpha > 0))
    fail(Fault::file, where, ": expected an alpha above 0, or nothing for the baseline, found '",
         cell, "'");
  return alpha;
}

// The row that a line of CSV belongs to, made where it is the first of its kind.
SweepRow& row_of(SweepTable& table, std::span<const std::string> cells, const std::string& where) {
  const bool is_plain = cells[0].empty() || cells[0] == "0";
  if (!is_plain) {
    const bool is_count = cells[0].find(' ') == cells[0].npos;
    set_prefix(table, is_count ? cells[0] + " tokens" : cells[0], where);
  }
  std::vector<SweepRow>& rows = is_plain ? table.plain : table.after;
  const std::optional<double> alpha = alpha_in(cells[2], where);
  if (SweepRow* const row = find_row(rows, alpha)) return *row;
  rows.push_back({alpha, {}});
  return rows.back();
}

// Lines after the first, with their places and as many cells as that.
template <class Take>
void each_line(const std::string& text, const std::string& name, size_t cells, const Take& take) {
  std::istringstream input(text);
  size_t number = 0;
  for (std::string line; std::getline(input, line);) {
    if (++number == 1 || line.empty()) continue;
    const std::string where = cat(name, ":", number);
    const std::vector<std::string> found = csv_cells(line);
    if (found.size() != cells)
      fail(Fault::file, where, ": expected ", cells, " cells, found ", found.size());
    take(found, where);
  }
}

bool is_average(const std::string& benchmark) {
  return benchmark == "Avg" || benchmark == "average";
}

// A line per score. Benchmarks are in the order of their first lines.
SweepTable from_scores(const std::string& text, const std::string& name, size_t cells) {
  SweepTable table;
  each_line(text, name, cells, [&](const std::vector<std::string>& line, const std::string& where) {
    SweepRow& row = row_of(table, line, where);
    if (line[4] == overflow_word) {
      row.overflowed = true;
      return;
    }
    if (is_average(line[3])) return;
    const size_t at =
        size_t(std::ranges::find(table.benchmarks, line[3]) - table.benchmarks.begin());
    if (at == table.benchmarks.size()) table.benchmarks.push_back(line[3]);
    if (at != row.scores.size())
      fail(Fault::file, where, ": expected ",
           row.scores.size() < table.benchmarks.size() ? table.benchmarks[row.scores.size()]
                                                       : "another model",
           ", in the order of the models before, found ", line[3]);
    row.scores.push_back(score_in(line[4], where));
  });
  return table;
}

SweepTable from_models(const std::string& text, const std::string& name,
                       const std::vector<std::string>& head) {
  SweepTable table;
  const auto end = std::ranges::find(head, "average");
  if (end == head.end())
    fail(Fault::file, name, ":1: expected a column 'average' behind the benchmarks, found none");
  table.benchmarks.assign(head.begin() + 3, end);
  each_line(text, name, head.size(),
            [&](const std::vector<std::string>& line, const std::string& where) {
              SweepRow& row = row_of(table, line, where);
              if (row.has_scores() || row.overflowed)
                fail(Fault::file, where, ": expected a model that is not above, found ", row.name(),
                     " again");
              row.overflowed = line[3] == overflow_word;
              if (row.overflowed) return;
              for (size_t b = 0; b < table.benchmarks.size(); ++b)
                row.scores.push_back(score_in(line[3 + b], where));
            });
  return table;
}

SweepTable from_runs(const ScoreTable& scores, const std::string& name) {
  constexpr std::string_view with_sane = "alpha-";
  SweepTable table;
  table.benchmarks = scores.benchmarks;
  for (size_t run = 0; run < scores.runs.size(); ++run) {
    const std::string& model = scores.runs[run];
    const bool has_alpha = model.starts_with(with_sane);
    SweepRow row{
        has_alpha ? alpha_in(model.substr(with_sane.size()), cat(name, ":1")) : std::nullopt, {}};
    if (find_row(table.plain, row.alpha))
      fail(Fault::file, name,
           ":1: expected one column for the baseline, and alpha-N for those with "
           "SANE, found ",
           model, " as well");
    for (const std::vector<double>& benchmark : scores.accuracy)
      row.scores.push_back(benchmark[run]);
    table.plain.push_back(std::move(row));
  }
  return table;
}

void expect_complete(const SweepTable& table, const std::string& name) {
  if (table.benchmarks.empty() || table.plain.empty())
    fail(Fault::file, name, ": expected scores without a prefix, found none");
  for (const std::vector<SweepRow>* const rows : {&table.plain, &table.after})
    for (const SweepRow& row : *rows)
      if (!row.overflowed && row.scores.size() != table.benchmarks.size())
        fail(Fault::file, name, ": ", row.name(), ": expected ", table.benchmarks.size(),
             " benchmarks, found ", row.scores.size());
}

}  // namespace

double SweepRow::average() const {
  require(has_scores(), "an average is of scores");
  return std::accumulate(scores.begin(), scores.end(), 0.0) / double(scores.size());
}

std::string SweepRow::name() const {
  return alpha ? fmt::format("alpha {:g}", *alpha) : "baseline";
}

const SweepRow* SweepTable::baseline() const {
  return !plain.empty() && !plain[0].alpha ? &plain[0] : nullptr;
}

SweepTable sweep_table(std::span<const Run> runs, Unfinished unfinished) {
  const ScoreTable scores = table_of(runs, unfinished);
  SweepTable table;
  table.benchmarks = scores.benchmarks;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].prefix.empty()) {
      constexpr std::string_view of_state = "state at ";
      const bool is_state = runs[i].prefix.starts_with(of_state);
      set_prefix(table, runs[i].prefix.substr(is_state ? of_state.size() : 0), runs[i].name);
    }
    std::vector<SweepRow>& rows = runs[i].prefix.empty() ? table.plain : table.after;
    SweepRow row{scores.alphas[i], {}};
    if (find_row(rows, row.alpha))
      fail(Fault::file, runs[i].name, ": expected one run of each alpha, found another one of ",
           row.name(), runs[i].prefix.empty() ? " without a prefix" : " after the prefix");
    for (const std::vector<double>& benchmark : scores.accuracy) row.scores.push_back(benchmark[i]);
    rows.push_back(std::move(row));
  }
  if (table.plain.empty())
    fail(Fault::file, runs[0].name,
         ": expected runs without a prefix among the others, found none");
  sort_rows(table);
  return table;
}

SweepTable sweep_table_from_csv(const std::string& text, const std::string& name) {
  const std::string first = text.substr(0, text.find('\n'));
  const std::vector<std::string> head = csv_cells(first);
  SweepTable table;
  if (head.size() > 4 && head[0] == "prefix" && head[1] == "model" && head[2] == "alpha")
    table = head[3] == "benchmark" && head[4] == "score" ? from_scores(text, name, head.size())
                                                         : from_models(text, name, head);
  else
    table = from_runs(table_from_csv(text, name), name);
  expect_complete(table, name);
  sort_rows(table);
  return table;
}

void add_overflow(SweepTable& table, std::optional<double> alpha) {
  SweepRow* row = find_row(table.after, alpha);
  if (row == nullptr) {
    table.after.push_back({alpha, {}});
    row = &table.after.back();
  }
  require(!row->has_scores(), "a model that overflowed has no scores");
  row->overflowed = true;
  sort_rows(table);
}

std::optional<PairedT> test_rows(const SweepRow& first, const SweepRow& second) {
  if (first.scores.size() < 2 || first.scores.size() != second.scores.size()) return std::nullopt;
  return paired_t_test(first.scores, second.scores);
}

}  // namespace deltasane::eval
