// The table of a sweep as text, and its figure.
#pragma once

#include <string>

#include "eval/table/sweep_verdict.h"
#include "plot/figure.h"

namespace deltasane::eval {

// With p-values against the baseline, those between any two models, and the verdict in words.
std::string to_markdown(const SweepTable& table, const SweepVerdict& verdict);
// A line per model, all digits, with the p-value against the baseline; sweep_table_from_csv reads it.
std::string to_csv(const SweepTable& table);
// The same as one object, with the verdict. JSON has no infinity: null.
std::string to_json(const SweepTable& table, const SweepVerdict& verdict);
// A line per pair of models: prefix,first,second,difference,t,p.
std::string p_values_csv(const SweepTable& table);
// For \input: a tabular with rules of the package booktabs, in an environment table*.
std::string to_latex(const SweepTable& table);

// Average accuracy against alpha, without the prefix and after it; what collapsed is shaded.
plot::Chart accuracy_chart(const SweepTable& table, const SweepVerdict& verdict);

}  // namespace deltasane::eval
