// Synthetic arithmetic and word problems with worked answers, as chat, in levels of difficulty.
//
// A problem is a pure function of the options and an index. Training and held-out problems never
// overlap: the split is a hash of only the problem's family and numbers, so the same sum at another
// level, in another language or wording, or under another seed is in the same split. Problems of
// the other split are drawn again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

enum class Split { train, held_out };
enum class Language { english, chinese, both };
enum class Family {
  addition,
  subtraction,
  multiplication,
  division,
  comparison,
  chain,     // (a + b) * c and the like
  equation,  // linear, one unknown
  story,     // word problems of one to three steps
};
constexpr int family_count = 8;

enum class MathStyle {
  graded,    // level 1 brief, higher levels worked
  brief,     // "7+5=?" and "12"
  worked,    // every step, and \boxed{12} at the end
  sentence,  // "What is 7 + 5?" and "7 + 5 = 12. The answer is 12."
};

struct MathOptions {
  uint64_t seed = 1;
  Split split = Split::train;
  int lowest_level = 1, highest_level = 4;
  Language language = Language::english;
  MathStyle style = MathStyle::graded;
  uint32_t families = (1u << family_count) - 1;  // bit of each Family
};

struct Problem {
  std::string question, solution, answer;
  std::string_view family, language;  // as written in a description: "addition", "en"
  int level = 0;
};

// Parses and formats the part of a description after "math-chat:", such as
// "seed=1,split=held-out,level=1-4,language=both,style=graded,family=addition+story".
MathOptions math_options(std::string_view text);
std::string describe(const MathOptions& options);

Problem math_problem(const MathOptions& options, uint64_t index);

// "User: QUESTION\n\nAssistant:". The expected completion is " SOLUTION\n\n".
std::string chat_prompt(std::string_view question);

std::unique_ptr<Source> open_math_chat(std::string_view options);

}  // namespace deltasane::corpus
