// Spans of a text that may contain the answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "answers/answers.h"

namespace deltasane::answers {

struct LatexSpan {
  std::string_view content;
  bool percent = false;
  bool bare_box = false;  // \boxed{...} outside of math delimiters
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

// Finds the matches of a text, in groups of falling priority; within a group the match that ends
// last comes first. Scanning has one work budget per text, and the matches of a group are limited.
class Matcher {
 public:
  Matcher(std::string_view text, const CheckOptions& options);
  ~Matcher();

  std::vector<int> priorities() const;  // in the order to try them
  std::vector<Match> matches(int priority);

 private:
  class Patterns;
  std::unique_ptr<Patterns> patterns_;
  const CheckOptions& options_;
};

}  // namespace deltasane::answers
