#include "kernel/matmul/quantized_cuda/expand.h"

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/matmul/quantized_cuda/fixture_blocks.h"

namespace deltasane::kernel::cuda {
namespace {

using GpuQuantizedMatrix = GpuTest;

// In bits: the same numbers by the same rounding.
TEST_F(GpuQuantizedMatrix, ExpandsToTheRoundedNumbers) {
  for (const WeightType type : weight_types) {
    if (!is_quantized(type)) continue;
    for (const auto& [rows, inputs] : {std::pair{1, 32}, {5, 45}, {8, 256}, {27, 768}, {64, 300}}) {
      const kernel::Weights weights = MatmulProblem({type, 1, rows, inputs}, 7).weights;
      SCOPED_TRACE(cat(name_of(type), " (", rows, ", ", weights.in(), ")"));
      const auto blocks = blocks_of(weights, gpu());
      const int64_t columns = columns_in_blocks(weights.in());
      constexpr int64_t behind = 64;
      auto out = poisoned<bf16>(rows * columns + behind);
      expand({type, blocks.data()}, rows, columns, out.data(), gpu());
      const Tensor<bf16> found = out.on_host(gpu());
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const float expected = j < weights.in() ? weights.at(i, j) : 0.0f;
          ASSERT_EQ(found[i * columns + j].bits, bf16(expected).bits) << i << ", " << j;
        }
      for (int64_t i = 0; i < behind; ++i)
        ASSERT_EQ(found[rows * columns + i].bits, bf16(NAN).bits) << "behind the end";
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
