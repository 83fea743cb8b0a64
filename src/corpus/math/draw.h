// Random numbers for a problem, and the split that they belong to.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "corpus/math/chat.h"

namespace deltasane::corpus {

struct Drawn {
  Family family;
  int level;
  int shape = 0;                    // index of the form within the family
  std::array<int64_t, 4> values{};  // a, b, c, d; unused ones are 0
};

constexpr int highest_math_level = 4;
int lowest_level_of(Family family);

Drawn draw_numbers(Family family, int level, Random& random);
bool is_held_out(const Drawn& drawn);

}  // namespace deltasane::corpus
