#include "answers/extract/match.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "answers/extract/environment.h"
#include "answers/extract/prose.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

enum Priority {
  hope = 0,
  final_answer = 50,
  colon = 100,
  answer_word = 200,
  opening = 250,
  bare = 300
};

const Follow anything = [](size_t) { return true; };

constexpr size_t max_matches = 1000;  // per pattern; only the last ones can matter
constexpr int scanning_budget = 250000;

using Table = std::array<bool, 256>;

constexpr Table table_of(std::string_view characters, bool beyond_ascii) {
  Table table{};
  for (const char c : characters) table[uint8_t(c)] = true;
  for (size_t i = 0x80; i < 256; ++i) table[i] = beyond_ascii;
  return table;
}

constexpr std::string_view spaces = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
constexpr Table space_table = table_of(spaces, true);
constexpr Table span_table = table_of(" \t\n\v\f\r\x1c\x1d\x1e\x1f$\\-", true);
constexpr Table prose_table = table_of(" \t\n\v\f\r\x1c\x1d\x1e\x1f=", true);
constexpr Table number_table = table_of("0123456789-(.*$", true);

// Calls body with the positions 0, 1 ... `most` characters after `at`.
template <class Body>
auto within(std::string_view text, size_t at, int most, bool across_lines, const Body& body)
    -> decltype(body(at)) {
  for (int i = 0; i <= most && at <= text.size(); ++i) {
    if (auto match = body(at)) return match;
    if (at == text.size() || (!across_lines && text[at] == '\n')) break;
    at += character_length(text, at);
  }
  return {};
}

}  // namespace

class Matcher::Patterns {
 public:
  Patterns(std::string_view text, const CheckOptions& options)
      : text_(text), options_(options), environments_(text), prose_(text) {
    for (size_t at = 0; at + 6 <= text.size(); ++at)
      if ((text[at] | 32) == 'a' && starts_any_case(text, at, "answer")) anchors_.push_back(at);
  }

  std::vector<Match> of(int priority) {
    std::vector<Match> found;
    if (options_.latex) latex(priority, found);
    if (options_.expressions) expressions(priority, found);
    if (options_.strings) strings(priority, found);
    std::stable_sort(found.begin(), found.end(), [](const Match& a, const Match& b) {
      return a.end != b.end ? a.end > b.end : a.start < b.start;
    });
    return found;
  }

 private:
  using Found = std::optional<Match>;

  // Calls try_at at each possible start of a pattern, from the left; continues after each match.
  template <class NextStart, class TryAt>
  void find_each(std::vector<Match>& found, int cost, const NextStart& next_start,
                 const TryAt& try_at) {
    std::vector<Match> matches;
    for (size_t at = next_start(0); at != npos && (budget_ -= cost) > 0;) {
      if (auto match = try_at(at)) {
        match->start = at;
        const size_t end = std::max(match->end, at + 1);
        if (matches.size() >= 2 * max_matches)
          matches.erase(matches.begin(), matches.begin() + max_matches);
        matches.push_back(std::move(*match));
        at = next_start(end);
      } else {
        at = next_start(at + 1);
      }
    }
    found.insert(found.end(), std::make_move_iterator(matches.begin()),
                 std::make_move_iterator(matches.end()));
  }

  size_t next_in(const Table& table, size_t from) const {
    while (from < text_.size() && !table[uint8_t(text_[from])]) ++from;
    return from < text_.size() ? from : npos;
  }

  // body(position) is tried where the anchored part may begin.
  template <class Body>
  void anchored(int priority, bool across_lines, std::vector<Match>& found, const Body& body) {
    const bool final_words = priority <= final_answer;
    const std::string_view before = "final ";
    // The anchors come in order, so the next is found from the last one.
    size_t next_anchor = 0;
    const auto next = [&](size_t from) {
      for (; next_anchor < anchors_.size(); ++next_anchor) {
        const size_t at = anchors_[next_anchor];
        if (!final_words && at >= from) return at;
        if (final_words && at >= from + before.size() &&
            starts_any_case(text_, at - before.size(), before))
          return at - before.size();
      }
      return npos;
    };
    find_each(found, 200, next, [&](size_t at) -> Found {
      at += final_words ? 12 : 6;
      if (priority == hope) {
        if (!starts_any_case(text_, at, " is")) return {};
        at += 3;
        return body(at + starts(text_, at, ":"));
      }
      if (priority == final_answer)
        return within(text_, at, 100, across_lines, [&](size_t gap) -> Found {
          const size_t word = environments_.skip_spaces(gap);
          if (word == gap || !starts(text_, word, "is")) return {};
          return body(word + 2 + starts(text_, word + 2, ":"));
        });
      if (priority == colon) {
        if (!starts(text_, at, ":")) return {};
        ++at;
      }
      return body(at);
    });
  }

  bool hope_follows(size_t end) const {
    if (starts(text_, end, ".")) ++end;
    const size_t space = space_length(text_, end);
    return starts(text_, end + space, "I hope");
  }

  static Match latex_match(EnvironmentScanner::Enumeration enumeration) {
    Match match;
    match.end = enumeration.end;
    match.spans = std::move(enumeration.spans);
    return match;
  }

  void latex(int priority, std::vector<Match>& found) {
    if (priority == hope || priority == final_answer) {
      anchored(priority, true, found, [&](size_t at) -> Found {
        auto spans = environments_.enumeration_after_spaces(at, Content::any);
        if (!spans || (priority == hope && !hope_follows(spans->end))) return {};
        return latex_match(std::move(*spans));
      });
    } else if (priority == colon || priority == answer_word) {
      anchored(priority, true, found, [&](size_t at) {
        return within(text_, at, 50, true, [&](size_t here) -> Found {
          auto spans = environments_.enumeration_at(here, Content::any);
          if (!spans) return {};
          return latex_match(std::move(*spans));
        });
      });
    } else if (priority == bare && options_.without_anchor) {
      spans(Content::any, found);
    }
    if (priority == options_.boxed_priority) {
      spans(Content::boxed, found);
      bare_box(found);
    }
  }

  void spans(Content content, std::vector<Match>& found) {
    if (content == Content::boxed && text_.find("\\boxed{") == npos) return;
    const auto next = [&](size_t from) {
      for (from = next_in(span_table, from); from != npos; from = next_in(span_table, from + 1))
        if (!space_table[uint8_t(text_[from])] || (text_[from] & 0x80) ||
            starts(text_, from + 1, "["))
          break;
      return from;
    };
    find_each(found, 10, next, [&](size_t at) -> Found {
      auto enumeration = environments_.enumeration_at(at, content);
      if (!enumeration) return {};
      return latex_match(std::move(*enumeration));
    });
  }

  // From the first \boxed{ to the last brace of the text; which box counts is decided later.
  void bare_box(std::vector<Match>& found) {
    const size_t start = text_.find("\\boxed{"), end = text_.rfind('}');
    if (start == npos || end == npos || end < start + 8) return;
    Match match;
    match.start = start;
    match.end = end + 1;
    match.spans = {{text_.substr(start, end + 1 - start), false, true}};
    found.push_back(std::move(match));
  }

  void expressions(int priority, std::vector<Match>& found) {
    if (priority == hope || priority == final_answer) {
      const Follow follow = [&](size_t end) { return hope_follows(end); };
      anchored(priority, false, found, [&](size_t at) -> Found {
        if (priority == final_answer) return prose_.either_at(at, anything);
        // The white space before the number is part of the number's own match.
        const size_t past = environments_.skip_spaces(at);
        const size_t last = past > at ? space_before(text_, past) : npos;
        if (auto match = prose_.either_at(past, follow)) return match;
        return last != npos && last >= at ? prose_.either_at(last, follow) : Found{};
      });
    } else if (priority == colon || priority == answer_word) {
      const Follow not_equals = [&](size_t end) {
        return !starts(text_, environments_.skip_spaces(end), "=");
      };
      anchored(priority, false, found, [&](size_t at) -> Found {
        if (auto match = after_last_equals(at, not_equals)) return match;
        return within(text_, at, 50, false,
                      [&](size_t here) { return prose_.either_at(here, not_equals); });
      });
    } else if (priority == bare && options_.without_anchor) {
      const auto may_start = [&](size_t at) {
        if (at == 0 || (text_[at] & 0x80)) return true;
        return at + 1 < text_.size() && number_table[uint8_t(text_[at + 1])];
      };
      const auto next = [&](size_t from) {
        if (from == 0 && !text_.empty()) return from;
        do from = next_in(prose_table, from);
        while (from != npos && !may_start(from) && ++from);
        return from;
      };
      find_each(found, 20, next, [&](size_t at) { return prose_.expression_at(at, anything); });
      find_each(found, 50, next, [&](size_t at) { return prose_.number_at(at, anything); });
    }
  }

  // The number behind the last of the equal signs within 100 characters on this line.
  Found after_last_equals(size_t at, const Follow& follow) {
    std::vector<size_t> signs;
    for (int i = 0; i <= 100 && at < text_.size() && text_[at] != '\n'; ++i) {
      if (text_[at] == '=') signs.push_back(at);
      at += character_length(text_, at);
    }
    for (size_t i = signs.size(); i-- > 0;) {
      const size_t behind = signs[i] + 1, past = environments_.skip_spaces(behind);
      if (auto match = prose_.either_at(past, follow)) return match;
      if (past == behind) continue;
      if (auto match = prose_.either_at(space_before(text_, past), follow)) return match;
    }
    return {};
  }

  // --- choice letters ---

  std::optional<std::pair<size_t, std::string_view>> choice_at(size_t at) const {
    for (const std::string& choice : options_.choices)
      if (!choice.empty() && starts(text_, at, choice))
        return std::pair(at + choice.size(), text_.substr(at, choice.size()));
    return {};
  }

  static Match choice_match(size_t end, std::string_view choice) {
    Match match;
    match.what = Match::What::choice;
    match.end = end;
    match.text = choice;
    return match;
  }

  // A choice that stands alone: **A**. or " A,".
  Found lone_choice(size_t at) const {
    for (const size_t stars : {size_t(2), size_t(0)}) {
      if (stars && !starts(text_, at, "**")) continue;
      const auto choice = choice_at(at + stars);
      if (!choice) continue;
      for (const size_t closing : {size_t(2), size_t(0)}) {
        if (closing && !starts(text_, choice->first, "**")) continue;
        const size_t end = choice->first + closing;
        if (end < text_.size() && std::string_view(".,:").find(text_[end]) != npos)
          return choice_match(end + 1, choice->second);
        if (const size_t space = space_length(text_, end))
          return choice_match(end + space, choice->second);
        if (end == text_.size()) return choice_match(end, choice->second);
      }
    }
    return {};
  }

  Found delimited_choice(size_t at) const {
    if (at == 0)
      if (auto match = lone_choice(0)) return match;
    const size_t space = space_length(text_, at);
    return space ? lone_choice(at + space) : Found{};
  }

  void strings(int priority, std::vector<Match>& found) {
    if (priority == hope || priority == final_answer) {
      anchored(priority, false, found, [&](size_t at) -> Found {
        const auto choice = choice_at(environments_.skip_spaces(at));
        if (!choice || (priority == hope && !hope_follows(choice->first))) return {};
        return choice_match(choice->first, choice->second);
      });
    } else if (priority == colon || priority == answer_word) {
      anchored(priority, false, found, [&](size_t at) {
        return within(text_, at, 50, false, [&](size_t here) { return delimited_choice(here); });
      });
    } else if (priority == opening && options_.without_anchor) {
      if (auto match = lone_choice(0)) found.push_back(std::move(*match));
    } else if (priority == bare && options_.without_anchor) {
      const auto next = [&](size_t from) {
        return from == 0 && !text_.empty() ? from : next_in(space_table, from);
      };
      find_each(found, 10, next, [&](size_t at) { return delimited_choice(at); });
    }
  }

  std::string_view text_;
  const CheckOptions& options_;
  EnvironmentScanner environments_;
  ProseScanner prose_;
  std::vector<size_t> anchors_;  // where "answer" stands
  int budget_ = scanning_budget;
};

Matcher::Matcher(std::string_view text, const CheckOptions& options)
    : patterns_(std::make_unique<Patterns>(text, options)), options_(options) {}

Matcher::~Matcher() = default;

std::vector<int> Matcher::priorities() const {
  std::vector<int> all = {hope, final_answer, colon, answer_word, bare};
  if (options_.strings) all.push_back(opening);
  if (options_.latex && options_.boxed_priority >= 0) all.push_back(options_.boxed_priority);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<Match> Matcher::matches(int priority) { return patterns_->of(priority); }

}  // namespace deltasane::answers
