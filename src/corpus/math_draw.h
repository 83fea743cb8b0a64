// The numbers of a problem, and the side of the split they fall on.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "corpus/math_chat.h"

namespace deltasane::corpus {

struct Drawn {
  Family family;
  int level;
  int shape = 0;                    // which of the family's forms
  std::array<int64_t, 4> values{};  // a, b, c, d; what is not used is 0
};

constexpr int highest_math_level = 4;
int lowest_level_of(Family family);

Drawn draw_numbers(Family family, int level, Random& random);
bool is_held_out(const Drawn& drawn);

}  // namespace deltasane::corpus
