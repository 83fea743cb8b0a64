// The choices of all rows, those of each expert after one another: slots.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/experts/experts.h"

namespace deltasane::kernel {

struct ExpertSlots {
  std::vector<int32_t> row;    // of each slot
  std::vector<int32_t> place;  // the slot of each choice
  std::vector<int64_t> first;  // slot of each expert; the last: all

  ExpertSlots(std::span<const Choice> chosen, int64_t used, size_t experts)
      : row(chosen.size()), place(chosen.size()), first(experts + 1) {
    for (const Choice& choice : chosen) ++first[size_t(choice.expert) + 1];
    for (size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (size_t i = 0; i < chosen.size(); ++i) {
      place[i] = int32_t(next[size_t(chosen[i].expert)]++);
      row[size_t(place[i])] = int32_t(int64_t(i) / used);
    }
  }
  // Calls body(expert, its first slot, its slots) for those that are chosen.
  template <class Body>
  void each_expert(const Body& body) const {
    for (size_t e = 0; e + 1 < first.size(); ++e)
      if (first[e + 1] > first[e]) body(e, first[e], first[e + 1] - first[e]);
  }
};

}  // namespace deltasane::kernel
