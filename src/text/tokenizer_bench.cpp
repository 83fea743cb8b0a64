#include "text/tokenizer_bench.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace deltasane {

EncodeRate measure_encode_rate(const Tokenizer& tokenizer, std::string_view text, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
  };
  if (text.empty()) fail(Fault::usage, "text to encode: expected at least one byte, found none");
  std::vector<int32_t> ids;
  double best = 0;
  int passes = 0;
  for (const auto begin = Clock::now(); passes < 3 || since(begin) < seconds; ++passes) {
    ids.clear();
    const auto start = Clock::now();
    tokenizer.append_encoded(text, ids);
    best = std::max(best, double(text.size()) / since(start));
  }
  return {best * 1e-6, double(text.size()) / double(ids.size()), passes};
}

}  // namespace deltasane
