#include "eval/table/sweep_verdict.h"

#include <fmt/format.h>
#include <algorithm>

namespace deltasane::eval {
namespace {

constexpr double collapse_share = 0.1;

bool contains(const std::vector<double>& alphas, double alpha) {
  return std::ranges::find(alphas, alpha) != alphas.end();
}

bool is_below(const SweepRow& row, const SweepRow& than, double level) {
  const std::optional<PairedT> test = test_rows(than, row);
  return test && test->difference < 0 && test->p < level;
}

// A model with SANE, without the prefix and after it.
struct Pair {
  double alpha;
  const SweepRow *plain, *after;  // after: null where it was not asked there

  bool has_both() const { return plain->has_scores() && after && after->has_scores(); }
};

std::vector<Pair> pairs_of(const SweepTable& table) {
  std::vector<Pair> pairs;
  for (const SweepRow& row : table.plain) {
    if (!row.alpha || !row.has_scores()) continue;
    const auto after = std::ranges::find(table.after, row.alpha, &SweepRow::alpha);
    pairs.push_back({*row.alpha, &row, after == table.after.end() ? nullptr : &*after});
  }
  return pairs;
}

bool has_collapsed(const Pair& pair) {
  if (pair.after == nullptr) return false;
  return pair.after->overflowed ||
         (pair.has_both() && pair.after->average() < collapse_share * pair.plain->average());
}

bool is_dominated(const Pair& pair, const std::vector<Pair>& pairs) {
  const double plain = pair.plain->average(), after = pair.after->average();
  return std::ranges::any_of(pairs, [&](const Pair& other) {
    if (!other.has_both()) return false;
    const double other_plain = other.plain->average(), other_after = other.after->average();
    return other_plain >= plain && other_after >= after &&
           (other_plain > plain || other_after > after);
  });
}

std::vector<double> all_alphas(const SweepTable& table) {
  std::vector<double> alphas;
  for (const Pair& pair : pairs_of(table)) alphas.push_back(pair.alpha);
  return alphas;
}

std::string prefix_of(const SweepTable& table) {
  return table.prefix.empty() ? "the prefix" : table.prefix;
}

std::string sentence_without_prefix(const SweepTable& table, const SweepVerdict& verdict) {
  const std::vector<double> all = all_alphas(table);
  if (!table.baseline()) return "There is no baseline to compare with.";
  if (table.benchmarks.size() < 2) return "One benchmark alone allows no test over benchmarks.";
  std::vector<double> below;
  std::ranges::copy_if(all, std::back_inserter(below),
                       [&](double alpha) { return !contains(verdict.harmless, alpha); });
  const std::string harmless =
      verdict.harmless.empty() ? "no alpha is without harm"
                               : fmt::format("alpha {} {}", alphas_text(verdict.harmless, all),
                                             verdict.harmless.size() > 1 ? "are not" : "is not");
  if (below.empty())
    return fmt::format("Without a prefix no alpha is significantly below the baseline (p < {:g}).",
                       verdict.level);
  return fmt::format(
      "Without a prefix alpha {} {} significantly below the baseline (p < {:g}); {}.",
      alphas_text(below, all), below.size() > 1 ? "are" : "is", verdict.level, harmless);
}

std::string sentence_of_overflows(const SweepTable& table) {
  std::string names;
  for (const SweepRow& row : table.after)
    if (row.overflowed) names += (names.empty() ? "" : ", ") + row.name();
  return names.empty() ? names
                       : fmt::format("Within {} the state overflows: {}.", prefix_of(table), names);
}

}  // namespace

std::string alphas_text(const std::vector<double>& some, const std::vector<double>& all) {
  std::string text;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    while (end < all.size() && contains(some, all[end])) ++end;
    if (end > i) {
      const char* const between = end - i == 2 ? " and" : " to";
      text += fmt::format("{}{:g}", text.empty() ? "" : ", ", all[i]);
      if (end - i > 1) text += fmt::format("{} {:g}", between, all[end - 1]);
    }
    i = std::max(end, i + 1);
  }
  return text;
}

SweepVerdict judge(const SweepTable& table, double level) {
  SweepVerdict verdict;
  verdict.level = level;
  const std::vector<Pair> pairs = pairs_of(table);
  const SweepRow* const baseline = table.baseline();
  const Pair* best = nullptr;  // after the prefix, of the harmless ones
  for (const Pair& pair : pairs) {
    const bool is_harmless = baseline && !is_below(*pair.plain, *baseline, level);
    if (is_harmless) verdict.harmless.push_back(pair.alpha);
    if (has_collapsed(pair)) verdict.collapsed.push_back(pair.alpha);
    if (pair.has_both() && !is_dominated(pair, pairs)) verdict.front.push_back(pair.alpha);
    if (is_harmless && pair.has_both() &&
        (best == nullptr || pair.after->average() > best->after->average()))
      best = &pair;
  }
  if (best == nullptr) return verdict;
  double highest = -1;
  for (const Pair& pair : pairs) {
    if (!pair.has_both() || !contains(verdict.harmless, pair.alpha) ||
        contains(verdict.collapsed, pair.alpha) || is_below(*pair.after, *best->after, level))
      continue;
    verdict.safe.push_back(pair.alpha);
    if (!contains(verdict.front, pair.alpha) || pair.after->average() <= highest) continue;
    highest = pair.after->average();
    verdict.choice = pair.alpha;
  }
  return verdict;
}

std::vector<std::string> sentences(const SweepTable& table, const SweepVerdict& verdict) {
  std::vector<std::string> all{sentence_without_prefix(table, verdict)};
  if (table.after.empty()) return all;
  const std::vector<double> alphas = all_alphas(table);
  if (std::string overflows = sentence_of_overflows(table); !overflows.empty())
    all.push_back(std::move(overflows));
  if (!verdict.collapsed.empty())
    all.push_back(fmt::format(
        "After {} alpha {} {} collapsed: less than a tenth of the accuracy without it is left.",
        prefix_of(table), alphas_text(verdict.collapsed, alphas),
        verdict.collapsed.size() > 1 ? "have" : "has"));
  if (!table.baseline()) return all;
  if (verdict.safe.empty()) {
    all.push_back(
        "No alpha is safe: none that does as well as the baseline withstands the prefix.");
    return all;
  }
  all.push_back(
      fmt::format("Safe range: alpha {}. Without a prefix not significantly below the baseline, "
                  "and after {} not "
                  "significantly below the best of those.",
                  alphas_text(verdict.safe, alphas), prefix_of(table)));
  all.push_back(
      fmt::format("Pareto front of both averages: alpha {}.", alphas_text(verdict.front, alphas)));
  if (!verdict.choice) {
    all.push_back("No safe alpha is on the Pareto front.");
    return all;
  }
  const auto average = [&](const std::vector<SweepRow>& rows) {
    return std::ranges::find(rows, verdict.choice, &SweepRow::alpha)->average();
  };
  all.push_back(fmt::format(
      "Pareto choice: alpha {:g}, the safe one on the front with the highest average after {}: "
      "{:.2f}, and {:.2f} without a prefix.",
      *verdict.choice, prefix_of(table), average(table.after), average(table.plain)));
  return all;
}

}  // namespace deltasane::eval
