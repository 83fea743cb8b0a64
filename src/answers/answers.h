// Judging a written answer against a reference answer, by the rules of Math-Verify 0.8.0.
//
//   extract(text)          finds the answer in a text: a value, the text it came from, or both
//   equivalent(gold, pred) whether two extracted answers are the same; not symmetric
//   verify(gold, pred)     extract both, then compare
//
// A reference answer should be wrapped ($...$ or \boxed{...}): bare text is read as prose.
// Input is untrusted: every step has a work budget, so no input can hang a check or exhaust memory;
// a value that exceeds the budget counts as not parsed. No step reads the clock, so a verdict does
// not depend on the machine or on the number of threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"

namespace deltasane::answers {

inline constexpr std::string_view rule_set = "math-verify-0.8.0";

enum class Verdict {
  different,
  same,
  unsupported,  // only in builds without GMP and MPFR: the pair needs algebra
};

enum class ExtractionMode { any_match, first_match };
enum class Fallback { first_match, none };

struct CheckOptions {
  // What to look for in a text.
  bool latex = true;
  bool expressions = true;
  bool strings = false;  // choice letters
  std::vector<std::string> choices = {"A", "B", "C", "D"};
  bool lowercase_choices = true;
  bool without_anchor = true;    // also take answers that no "answer:" announces
  int boxed_priority = 50;       // lower is tried earlier; -1 ignores boxes
  bool repair_operators = true;  // \frac12, \sqrt2, x^(2) ...
  ExtractionMode mode = ExtractionMode::any_match;
  Fallback fallback = Fallback::first_match;

  // How to compare.
  int float_rounding = 6;         // decimals that count when one side is a decimal number
  int numeric_precision = 15;     // digits that count for constants
  bool strict = true;             // false: variables are matched by position
  bool relation_for_set = false;  // true: "x > 1" may also answer a gold "(1, oo)"
};

struct Node;  // an expression; see tree.h
using Tree = std::shared_ptr<const Node>;

// An extracted answer. Both members may be absent; then nothing was found.
struct Answer {
  Tree value;
  std::string choice;  // lower-cased choice letter, from the string target
  std::string text;    // of the first match that was tried, also when another gave the value
  bool found() const { return value || !choice.empty() || !text.empty(); }
};

using Gold = std::string_view;
using Prediction = std::string_view;

Answer extract(std::string_view text, const CheckOptions& options = {});
Verdict equivalent(const Answer& gold, const Answer& prediction, const CheckOptions& options = {});
Verdict verify(Gold gold, Prediction prediction, const CheckOptions& options = {});

// A bare reference answer in the form that `extract` reads whole: $...$, or a box where the answer
// has several lines or dollar signs of its own.
std::string wrapped(std::string_view bare_gold);

struct Pair {
  std::string gold, prediction;
  CheckOptions options;
};

// One verdict per pair, in order; keeps every thread of the pool busy.
std::vector<Verdict> verify_all(ThreadPool& pool, std::span<const Pair> pairs);

// For voting: answers[i] belongs to group result[i]; a group is numbered by its first member.
// Answers that were not found belong to no group (-1).
std::vector<int> group(std::span<const Answer> answers, const CheckOptions& options = {});

// The value in a form that reads like the expression it is; for reports and tests.
std::string describe(const Answer& answer);

// Whether this build can compare expressions, or only plain numbers and text.
bool has_algebra();

}  // namespace deltasane::answers
