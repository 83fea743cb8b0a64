// Stands for kernel/sampler/cuda/blocks.cu: rows one after the other, as the host has them in tests.
#include "kernel/sampler/cuda.h"

namespace deltasane::kernel::cuda {

void sample_rows(const SampleRows& op, const Gpu&) {
  for (int64_t row = 0; row < op.rows; ++row) {
    const SamplingParams& params = op.params[row];
    op.sampled[row] =
        sample_row_on_host({op.logits + row * op.vocabulary, size_t(op.vocabulary)}, params,
                           {op.penalties, size_t(params.penalties_end)});
  }
}
void sample_row(const SampleRow& op, const Gpu& gpu) {
  sample_rows({1, op.vocabulary, op.logits, &op.params, op.penalties, op.sampled}, gpu);
}

}  // namespace deltasane::kernel::cuda
