#include "kernel/delta_rule/cpu/runs.h"

namespace deltasane::kernel {

std::vector<cpu::Run> runs_of(const DeltaRule<float>& op, int64_t batch) {
  std::vector<cpu::Run> runs;
  const int64_t start = op.position ? op.position(batch) : 0;
  int64_t begin = 0;        // of the current run
  bool chunk_whole = true;  // no padding in the current chunk so far
  const int64_t time = op.k.shape[1];
  for (int64_t t = 0; t < time; ++t) {
    const int64_t passed = start + t + 1;  // tokens of the sequence up to this one
    const bool chunk_ends = passed % op.chunk == 0;
    if (op.present && op.present(batch, t) == 0) {
      if (begin < t) runs.push_back({begin, t, -1});
      begin = t + 1;
      chunk_whole = false;
    } else if (chunk_ends || passed % cpu::longest_run == 0 || t + 1 == time) {
      const int64_t number = (passed - 1) / op.chunk - start / op.chunk;
      const bool neutralized = chunk_ends && op.tau && chunk_whole &&
                               (!op.neutralize || op.neutralize(batch, number) != 0);
      runs.push_back({begin, t + 1, neutralized ? number : -1});
      begin = t + 1;
    }
    if (chunk_ends) chunk_whole = true;
  }
  return runs;
}

}  // namespace deltasane::kernel
