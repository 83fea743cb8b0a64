#include "corpus/math/draw.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "corpus/math/patterns.h"

namespace deltasane::corpus {
namespace {

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + int64_t(random.below(uint64_t(high - low + 1)));
}

void draw_addition(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  if (drawn.level == 3) {  // sums to 1,000
    const int64_t total = between(random, 2, 1000);
    a = between(random, 1, total - 1);
    b = total - a;
    return;
  }
  constexpr int64_t most[] = {9, 99, 0, 99999};
  const int64_t least = drawn.level == 4 ? 1000 : 0;
  a = between(random, least, most[drawn.level - 1]);
  b = between(random, least, most[drawn.level - 1]);
}

void draw_subtraction(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  constexpr int64_t most[] = {9, 99, 1000, 99999};
  a = between(random, drawn.level == 4 ? 1000 : 0, most[drawn.level - 1]);
  b = drawn.level == 4 ? between(random, 1000, most[3]) : between(random, 0, a);
}

void draw_multiplication(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  constexpr int64_t most_a[] = {0, 10, 12, 999}, most_b[] = {0, 10, 99, 99};
  const int64_t least = drawn.level == 4 ? 12 : 2;
  a = between(random, least, most_a[drawn.level - 1]);
  b = between(random, least, most_b[drawn.level - 1]);
}

void draw_division(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  constexpr int64_t most_divisor[] = {0, 10, 12, 25}, most_quotient[] = {0, 10, 99, 999};
  b = between(random, 2, most_divisor[drawn.level - 1]);
  a = b * between(random, drawn.level == 4 ? 10 : 2, most_quotient[drawn.level - 1]);
}

void draw_comparison(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  if (drawn.level == 4) {  // of two products
    drawn.shape = 1;
    do {
      for (int64_t& value : drawn.values) value = between(random, 3, 40);
    } while (a * b == c * d);
    return;
  }
  constexpr int64_t most[] = {9, 99, 9999};
  do {
    a = between(random, 0, most[drawn.level - 1]);
    b = between(random, 0, most[drawn.level - 1]);
  } while (a == b);
}

// 0: x + a = b   1: x - a = b   2: ax = b   3: ax + b = c   4: ax - b = c   5: ax + b = cx + d
void draw_equation(Drawn& drawn, Random& random) {
  auto& [a, b, c, d] = drawn.values;
  if (drawn.level == 3) {
    drawn.shape = int(random.below(3));
    const int64_t x = between(random, 1, 60);
    a = drawn.shape == 2 ? between(random, 2, 12) : between(random, 1, 99);
    b = drawn.shape == 0 ? x + a : drawn.shape == 1 ? x - a : a * x;
    return;
  }
  drawn.shape = 3 + int(random.below(3));
  const int64_t x = between(random, -20, 40);
  a = between(random, 3, 20);
  b = between(random, 1, 99);
  if (drawn.shape < 5) {
    c = drawn.shape == 3 ? a * x + b : a * x - b;
    return;
  }
  c = between(random, 2, a - 1);
  d = (a - c) * x + b;
}

void draw_pattern(Drawn& drawn, std::span<const Pattern> patterns, Random& random) {
  const auto at_level = [&](const Pattern& pattern) { return pattern.level == drawn.level; };
  const auto first = std::ranges::find_if(patterns, at_level);
  const auto count = std::ranges::count_if(patterns, at_level);  // they are contiguous
  drawn.shape = int(first - patterns.begin()) + int(random.below(uint64_t(count)));
  const Pattern& pattern = patterns[size_t(drawn.shape)];
  do {
    for (size_t i = 0; i < 4; ++i)
      if (pattern.ranges[i].high > 0)
        drawn.values[i] = between(random, pattern.ranges[i].low, pattern.ranges[i].high);
  } while (run_program(pattern.program, drawn.values).count == 0);
}

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
uint64_t mixed_bits(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

}  // namespace

int lowest_level_of(Family family) {
  switch (family) {
    case Family::addition:
    case Family::subtraction:
    case Family::comparison:
      return 1;
    case Family::equation:
      return 3;
    default:
      return 2;
  }
}

Drawn draw_numbers(Family family, int level, Random& random) {
  require(level >= lowest_level_of(family) && level <= highest_math_level,
          "a family is drawn at a level it has");
  Drawn drawn{family, level};
  switch (family) {
    case Family::addition:
      draw_addition(drawn, random);
      break;
    case Family::subtraction:
      draw_subtraction(drawn, random);
      break;
    case Family::multiplication:
      draw_multiplication(drawn, random);
      break;
    case Family::division:
      draw_division(drawn, random);
      break;
    case Family::comparison:
      draw_comparison(drawn, random);
      break;
    case Family::equation:
      draw_equation(drawn, random);
      break;
    case Family::chain:
      draw_pattern(drawn, chain_patterns(), random);
      break;
    case Family::story:
      draw_pattern(drawn, story_patterns(), random);
      break;
  }
  return drawn;
}

// 7 + 5 and 5 + 7 are the same problem: operands of commutative operations are sorted.
bool is_held_out(const Drawn& drawn) {
  auto [a, b, c, d] = drawn.values;
  if (drawn.family == Family::addition || drawn.family == Family::multiplication ||
      drawn.family == Family::comparison) {
    if (a > b) std::swap(a, b);
    if (c > d) std::swap(c, d);
    if (drawn.shape == 1 && std::pair(a, b) > std::pair(c, d)) {
      std::swap(a, c);
      std::swap(b, d);
    }
  }
  uint64_t bits = mixed_bits(uint64_t(drawn.family) << 8 | uint64_t(drawn.shape));
  for (const int64_t value : {a, b, c, d})
    bits = mixed_bits(bits + 0x9E3779B97F4A7C15u + uint64_t(value));
  return bits % 8 == 0;
}

}  // namespace deltasane::corpus
