#include <algorithm>

#include "answers/algebra.h"
#include "answers/answers.h"
#include "answers/plain_numbers.h"
#include "answers/scan.h"
#include "answers/words.h"

namespace deltasane::answers {

namespace {

bool same_text(std::string_view a, std::string_view b) {
  a = trimmed(a);
  b = trimmed(b);
  return !a.empty() && a == b;
}

}  // namespace

Verdict equivalent(const Answer& gold, const Answer& prediction, const CheckOptions& options) {
  for (const std::string* a : {&gold.choice, &gold.text})
    for (const std::string* b : {&prediction.choice, &prediction.text})
      if (same_text(*a, *b)) return Verdict::same;
  if (!gold.value || !prediction.value) return Verdict::different;
  const auto plain = compare_plain_numbers(*gold.value, *prediction.value, options.float_rounding);
  if (plain) return *plain ? Verdict::same : Verdict::different;
  if (options.strict)
    if (const auto words = compare_words(*gold.value, *prediction.value))
      return *words ? Verdict::same : Verdict::different;
  return compare_trees(gold.value, prediction.value, options);
}

Verdict verify(Gold gold, Prediction prediction, const CheckOptions& options) {
  return equivalent(extract(gold, options), extract(prediction, options), options);
}

std::vector<Verdict> verify_all(ThreadPool& pool, std::span<const Pair> pairs) {
  constexpr size_t chunk = 16;  // amortises the scheduling of one index
  std::vector<Verdict> verdicts(pairs.size());
  pool.parallel(int64_t((pairs.size() + chunk - 1) / chunk), [&](int64_t piece) {
    const size_t first = size_t(piece) * chunk;
    for (size_t i = first; i < std::min(first + chunk, pairs.size()); ++i)
      verdicts[i] = verify(pairs[i].gold, pairs[i].prediction, pairs[i].options);
  });
  return verdicts;
}

std::vector<int> group(std::span<const Answer> answers, const CheckOptions& options) {
  std::vector<int> groups(answers.size(), -1);
  std::vector<size_t> first_members;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].found()) continue;
    for (const size_t first : first_members) {
      if (equivalent(answers[first], answers[i], options) != Verdict::same) continue;
      groups[i] = int(first);
      break;
    }
    if (groups[i] >= 0) continue;
    groups[i] = int(i);
    first_members.push_back(i);
  }
  return groups;
}

std::string describe(const Answer& answer) {
  std::string text = answer.value ? describe(*answer.value) : answer.choice;
  if (!answer.text.empty()) text += (text.empty() ? "'" : " '") + answer.text + "'";
  return text;
}

}  // namespace deltasane::answers
