// maj@k: what several answers to one problem say together.
//
// Answers that the checker holds to be the same form a group. Texts in which no answer was found
// belong to no group and never vote. The largest group wins; of groups of the same size, the one
// with the earliest sample. The verdict on the vote is the verdict on the winner's first answer;
// where nobody voted, it is "different". Thoughts (up to </think>) are not looked at.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "answers/answers.h"

namespace deltasane::eval {

struct Vote {
  std::vector<std::string> answers;  // what was found in each text; empty: nothing
  std::vector<int> groups;           // numbered by their first member; -1: none
  std::vector<answers::Verdict> verdicts;
  std::optional<int> winner;  // the group
  int votes = 0;              // in it
  answers::Verdict verdict = answers::Verdict::different;
};

Vote vote(const std::string& bare_gold, std::span<const std::string> texts,
          const answers::CheckOptions& check);

}  // namespace deltasane::eval
