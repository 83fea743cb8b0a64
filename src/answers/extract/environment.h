// Spans of LaTeX in prose: $...$, $$...$$, \(...\), \[...\], [...] between spaces, and a bare
// \frac{1}{2}; each perhaps followed by a percent sign or word.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "answers/extract/match.h"
#include "answers/scan.h"

namespace deltasane::answers {

enum class Content { any, boxed };  // boxed: the span must hold a \boxed{...}

class EnvironmentScanner {
 public:
  explicit EnvironmentScanner(std::string_view text);

  struct Found {
    LatexSpan span;
    size_t end = 0;  // after trailing white space and percent sign
  };
  std::optional<Found> at(size_t position, Content content);

  // One span and up to five more joined by "and", "or" or a comma.
  struct Enumeration {
    std::vector<LatexSpan> spans;
    size_t end = 0;
  };
  std::optional<Enumeration> enumeration_at(size_t position, Content content);
  // The same where white space may come first.
  std::optional<Enumeration> enumeration_after_spaces(size_t position, Content content);

  size_t skip_spaces(size_t position);

 private:
  std::optional<std::pair<size_t, size_t>> delimited(size_t position, Content content, size_t& end);
  std::optional<Found> after_spaces(size_t position, Content content);
  bool holds_box(size_t from, size_t to) const;

  std::string_view text_;
  Finder dollars_, bracket_, parenthesis_, newline_;
  size_t spaces_from_ = 1, spaces_to_ = 0;
};

}  // namespace deltasane::answers
