#include "eval/suite/made_problems.h"

#include <set>

#include "base/cat.h"
#include "corpus/math/chat.h"

namespace deltasane::eval {

std::vector<Benchmark> make_math_chat(std::string_view options, int64_t problems) {
  corpus::MathOptions math = corpus::math_options(options);
  if (options.find("split=") == options.npos) math.split = corpus::Split::held_out;
  const int lowest = math.lowest_level, highest = math.highest_level;
  std::vector<Benchmark> found;
  for (int level = lowest; level <= highest; ++level) {
    math.lowest_level = math.highest_level = level;
    Benchmark& benchmark = found.emplace_back();
    benchmark.name = cat("math-chat-", level);
    benchmark.title = cat("math-chat level ", level);
    benchmark.instruction = "{question}";  // as in training
    std::set<std::string> asked_before;
    // Easy levels have few problems; what was asked before is not asked again.
    for (int64_t i = 0; i < 20 * problems && int64_t(benchmark.problems.size()) < problems; ++i) {
      corpus::Problem problem = corpus::math_problem(math, uint64_t(i));
      if (!asked_before.insert(problem.question).second) continue;
      benchmark.problems.push_back({i + 1, std::move(problem.question), std::move(problem.answer)});
    }
    if (const size_t found_problems = benchmark.problems.size(); int64_t(found_problems) < problems)
      benchmark.notes.push_back(cat(benchmark.name, ": expected ", problems, " problems, found ",
                                    found_problems, " different ones"));
  }
  return found;
}

}  // namespace deltasane::eval
