#include "base/words/nearest_word.h"

#include <algorithm>

namespace deltasane {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Distances from prefixes of a to every prefix of b: of this prefix and of the two before.
  std::vector<size_t> row(b.size() + 1), before(b.size() + 1), earlier(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    earlier.swap(before);
    before.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], earlier[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest_word(std::string_view word,
                                        std::span<const std::string_view> known) {
  const auto length = [](std::string_view one) { return one.size(); };
  std::vector<std::string_view> longer;
  for (const std::string_view one : known)
    if (word.size() > 1 && one.starts_with(word)) longer.push_back(one);
  if (!longer.empty()) return std::string(*std::ranges::min_element(longer, {}, length));
  if (known.empty()) return std::nullopt;
  const auto distance = [&](std::string_view one) { return edit_distance(word, one); };
  const std::string_view closest = *std::ranges::min_element(known, {}, distance);
  if (distance(closest) > std::max<size_t>(1, (word.size() + 1) / 3)) return std::nullopt;
  if (distance(closest) >= word.size()) return std::nullopt;  // no letter in common
  return std::string(closest);
}

}  // namespace deltasane
