// Chains and word problems as tables: a text with {a} .. {d} in it, and a program of steps.
//
// "a+b x*c" adds a and b, calls the result x, and multiplies it by c; the results are x, y, z. The
// last one is the answer.
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
  std::array<std::string_view, 3> english_labels{}, chinese_labels{};  // what each step finds
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

// No steps if a result would be below zero or a division would leave a rest.
Steps run_program(std::string_view program, const Operands& values);

}  // namespace deltasane::corpus
