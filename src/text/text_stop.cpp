#include "text/text_stop.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace deltasane {

void TextStop::Pattern::step(char c) {
  while (matched > 0 && text[matched] != c) matched = fallback[matched - 1];
  if (text[matched] == c) ++matched;
}

TextStop::TextStop(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) fail(Fault::usage, "stop string: expected at least one byte, found none");
    Pattern pattern{std::move(stop), {0}};
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      pattern.step(pattern.text[i]);
      pattern.fallback.push_back(pattern.matched);
    }
    pattern.matched = 0;
    patterns_.push_back(std::move(pattern));
  }
  // Longest first, so that the first complete one is the longest.
  std::stable_sort(patterns_.begin(), patterns_.end(), [](const Pattern& a, const Pattern& b) {
    return a.text.size() > b.text.size();
  });
}

std::string TextStop::feed(std::string_view text) {
  if (stopped()) return {};
  size_t longest_match = 0;
  for (const char c : text) {
    held_ += c;
    longest_match = 0;
    for (Pattern& pattern : patterns_) {
      pattern.step(c);
      longest_match = std::max(longest_match, pattern.matched);
      if (pattern.matched == pattern.text.size()) {
        found_ = size_t(&pattern - patterns_.data());
        held_.resize(held_.size() - pattern.text.size());
        return std::exchange(held_, {});
      }
    }
  }
  if (text.empty()) return {};
  std::string safe = held_.substr(0, held_.size() - longest_match);
  held_.erase(0, safe.size());
  return safe;
}

std::string TextStop::finish() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

std::string_view TextStop::stop() const {
  return found_ ? std::string_view(patterns_[*found_].text) : std::string_view{};
}

void TextStop::restart() {
  finish();
  found_.reset();
}

}  // namespace deltasane
