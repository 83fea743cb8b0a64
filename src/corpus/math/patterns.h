// Tables of expressions and word problems: a text with placeholders {a} .. {d}, and a program.
//
// "a+b x*c" adds a and b, names the result x, and multiplies it by c; results are named x, y, z.
// The last one is the answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace deltasane::corpus {

using Operands = std::array<int64_t, 4>;

struct Range {
  int64_t low = 0, high = 0;
};

struct Pattern {
  int level;
  std::string_view program;
  std::array<Range, 4> ranges;
  // {a} .. {d} numbers, {n} and {m} people, {o} things, {u} their Chinese measure word.
  std::string_view english, chinese;
  std::array<std::string_view, 3> english_labels{}, chinese_labels{};  // of the result of each step
};

std::span<const Pattern> chain_patterns();
std::span<const Pattern> story_patterns();

struct Step {
  int64_t left, right, result;
  char sign;
};

struct Steps {
  std::array<Step, 3> step;
  int count = 0;
  int64_t answer() const { return step[size_t(count - 1)].result; }
};

// No steps if a result would be negative or a division would have a remainder.
Steps run_program(std::string_view program, const Operands& values);

}  // namespace deltasane::corpus
