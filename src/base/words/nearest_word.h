// The known word that an unknown one was meant to be, for messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

// Letters that are substituted, inserted, deleted, or exchanged with their neighbour, to turn one word
// into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The shortest known word that begins with `word`, if that has two letters or more; else the closest,
// at most a third of the letters away. None: nothing is near.
std::optional<std::string> nearest_word(std::string_view word,
                                        std::span<const std::string_view> known);
template <class Words>
std::optional<std::string> nearest_word(std::string_view word, const Words& known) {
  return nearest_word(word, std::span<const std::string_view>(
                                std::vector<std::string_view>(known.begin(), known.end())));
}

}  // namespace deltasane
