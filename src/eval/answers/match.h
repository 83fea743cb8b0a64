// A place in a text that may hold the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/answers/answers.h"

namespace deltasane::answers {

struct LatexSpan {
  std::string_view content;
  bool percent = false;
  bool bare_box = false;  // \boxed{...} that no dollars surround
};

struct Match {
  enum class What { latex, number, expression, choice };
  What what = What::latex;
  size_t start = 0, end = 0;
  std::vector<LatexSpan> spans;   // latex: the spans of an enumeration
  std::string integer, fraction;  // number: "-1234" and ".5", either may be empty
  bool percent = false;           // number
  std::string_view text;          // expression, choice
};

// The matches of one priority, best first. Priorities in ascending order come from `priorities`.
std::vector<int> priorities(const CheckOptions& options);
std::vector<Match> matches(std::string_view text, int priority, const CheckOptions& options);

}  // namespace deltasane::answers
