#include "eval/run/vote.h"

#include <algorithm>

#include "text/chat/chat_template.h"

namespace deltasane::eval {

Vote vote(const std::string& bare_gold, std::span<const std::string> texts,
          const answers::CheckOptions& check) {
  const answers::Answer gold = answers::extract(answers::wrapped(bare_gold), check);
  std::vector<answers::Answer> found;
  Vote vote;
  for (const std::string& text : texts) {
    found.push_back(answers::extract(clean_answer(text), check));
    vote.answers.push_back(found.back().found() ? answers::describe(found.back()) : "");
    vote.verdicts.push_back(found.back().found() ? answers::equivalent(gold, found.back(), check)
                                                 : answers::Verdict::different);
  }
  vote.groups = answers::group(found, check);
  for (const int group : vote.groups) {  // earlier groups come first, so a tie stays with them
    const int votes = int(std::ranges::count(vote.groups, group));
    if (group < 0 || votes <= vote.votes) continue;
    vote.winner = group;
    vote.votes = votes;
  }
  if (vote.winner) vote.verdict = vote.verdicts[size_t(*vote.winner)];
  return vote;
}

}  // namespace deltasane::eval
