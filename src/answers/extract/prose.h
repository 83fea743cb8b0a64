// Numbers and simple expressions in prose: "the answer is 1,234.5", "= 3/4".
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "answers/extract/match.h"
#include "answers/scan.h"

namespace deltasane::answers {

// What must hold at the end of a match.
using Follow = std::function<bool(size_t end)>;

class ProseScanner {
 public:
  explicit ProseScanner(std::string_view text) : text_(text) {}

  // A match that starts at `position` with the character before the number: the start of the text,
  // white space or "=". Longer readings are preferred to shorter ones.
  std::optional<Match> expression_at(size_t position, const Follow& follow);
  std::optional<Match> number_at(size_t position, const Follow& follow);
  std::optional<Match> either_at(size_t position, const Follow& follow);

  // Whether a match could start here; a cheap test to run before the above.
  bool may_start(size_t position) const {
    return position == 0 || is_space(text_, position) || starts(text_, position, "=");
  }

 private:
  size_t digits_end(size_t position);
  size_t symbols_end(size_t position);
  size_t next_operator(size_t position);
  std::optional<Match> expression_from(size_t begin, const Follow& follow);
  std::optional<Match> number_from(size_t begin, const Follow& follow);
  bool accept(Match& match, size_t begin, size_t integer_end, size_t end, const Follow& follow);

  std::string_view text_;
  size_t digits_from_ = 1, digits_to_ = 0;
  size_t symbols_from_ = 1, symbols_to_ = 0;
  size_t operator_from_ = 1, operator_to_ = 0;
};

}  // namespace deltasane::answers
