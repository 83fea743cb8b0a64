// The passes over a row as plain loops: what the passes of blocks must compute.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernel/sampler/cuda/sample_row.cuh"

namespace deltasane::kernel::cuda {
namespace {

struct HostPasses {
  std::span<const float> row;
  std::vector<int32_t> tokens{};  // the list

  float logit(int32_t token) const { return row[size_t(token)]; }

  RowScan scan() const {
    RowScan found;
    for (size_t i = 0; i < row.size(); ++i) found = joined(found, scanned(int32_t(i), row[i]));
    return found;
  }
  template <class Measure>
  uint64_t total(const Measure& measure) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += measure(int32_t(i), row[i]);
    return sum;
  }
  template <class Measure>
  Digit digit(const Measure& measure, uint32_t known, int shift, uint64_t above,
              uint64_t need) const {
    std::vector<uint64_t> of_digit(256, 0);
    for (size_t i = 0; i < row.size(); ++i) {
      const uint32_t key = key_of(row[i]);
      if (uint64_t(key ^ known) >> (shift + 8) == 0)
        of_digit[key >> shift & 255] += measure(int32_t(i), row[i]);
    }
    uint32_t digit = 255;
    for (; digit > 0 && above + of_digit[digit] < need; --digit) above += of_digit[digit];
    return {digit, above, of_digit[digit]};
  }
  template <class Measure>
  int32_t reach(const Measure& measure, uint64_t before) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < row.size(); ++i)
      if ((sum += measure(int32_t(i), row[i])) > before) return int32_t(i);
    return -1;
  }

  int list(int count) {
    tokens.clear();
    for (size_t i = 0; i < row.size(); ++i)
      if (CountMeasure{}(int32_t(i), row[i]) > 0) tokens.push_back(int32_t(i));
    std::ranges::stable_sort(tokens, std::ranges::greater{},
                             [&](int32_t token) { return key_of(logit(token)); });
    tokens.resize(std::min(tokens.size(), size_t(count)));
    return int(tokens.size());
  }
  int32_t listed(int number) const { return tokens[size_t(number)]; }
  template <class Measure>
  int reach_in_list(const Measure& measure, int some, uint64_t before) const {
    uint64_t sum = 0;
    for (int i = 0; i < some; ++i)
      if ((sum += measure(listed(i), logit(listed(i)))) > before) return i;
    return some;
  }
  template <class Measure>
  uint64_t total_of_list(const Measure& measure, int some) const {
    uint64_t sum = 0;
    for (int i = 0; i < some; ++i) sum += measure(listed(i), logit(listed(i)));
    return sum;
  }
};

}  // namespace

SampledToken sample_row_on_host(std::span<float> logits, const SamplingParams& params,
                                std::span<const TokenPenalty> penalties) {
  for (const TokenPenalty& penalty : penalties.subspan(
           size_t(params.penalties_begin), size_t(params.penalties_end - params.penalties_begin)))
    logits[size_t(penalty.token)] -= penalty.amount;
  HostPasses passes{logits};
  return sample_with(passes, int64_t(logits.size()), params);
}

}  // namespace deltasane::kernel::cuda
