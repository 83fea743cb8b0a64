#include "kernel/matmul/quantized_cuda/expand.h"

#include "base/error.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/matmul/quantized_cuda/octet.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 8;

// A warp has 8 rows by 32 columns, blockIdx.y those rows.
template <WeightType type>
__global__ void __launch_bounds__(32 * warps)
    expand_blocks(const typename QuantizedOctet<type>::Block* blocks, int64_t rows, int64_t columns,
                  bf16* to) {
  using Octet = QuantizedOctet<type>;
  const int steps = int(columns / 32), step = int(blockIdx.x) * warps + int(threadIdx.x) / 32;
  if (step >= steps) return;
  const int lane = int(threadIdx.x) % 32;
  Octet octet;
  octet.load(blocks[int64_t(blockIdx.y) * (steps / Octet::parts) + step / Octet::parts],
             step % Octet::parts, lane);
  const uint4 pairs = octet.weights(lane);
  const int64_t row = int64_t(blockIdx.y) * q8_rows + lane / 4;
  if (row >= rows) return;
  bf16* const at = to + row * columns + step * 32 + lane % 4 * 4;
  *reinterpret_cast<uint2*>(at) = make_uint2(pairs.x, pairs.y);
  *reinterpret_cast<uint2*>(at + 16) = make_uint2(pairs.z, pairs.w);
}

template <WeightType type>
void expand_type(const GpuMatrix<bf16>& matrix, int64_t rows, int64_t columns, bf16* to,
                 const Gpu& gpu) {
  using Octet = QuantizedOctet<type>;
  const int64_t groups = (rows + q8_rows - 1) / q8_rows, steps = columns / 32;
  require(columns % (32 * Octet::parts) == 0 && groups < 65536,
          "a quantized matrix has columns of whole blocks, and less than 524,288 rows");
  launch(expand_blocks<type>,
         {dim3(unsigned((steps + warps - 1) / warps), unsigned(groups)), dim3(32 * warps)}, gpu,
         reinterpret_cast<const typename Octet::Block*>(matrix.blocks), rows, columns, to);
}

}  // namespace

void expand(const GpuMatrix<bf16>& matrix, int64_t rows, int64_t columns, bf16* to,
            const Gpu& gpu) {
  require(matrix.is_quantized(), "a matrix of blocks is expanded");
  if (rows == 0) return;
  require_aligned(matrix.blocks, to);
  switch (matrix.type) {
    case WeightType::q8:
      return expand_type<WeightType::q8>(matrix, rows, columns, to, gpu);
    case WeightType::q6_k:
      return expand_type<WeightType::q6_k>(matrix, rows, columns, to, gpu);
    case WeightType::q5_k:
      return expand_type<WeightType::q5_k>(matrix, rows, columns, to, gpu);
    case WeightType::q4_k:
      return expand_type<WeightType::q4_k>(matrix, rows, columns, to, gpu);
    case WeightType::q4:
      return expand_type<WeightType::q4>(matrix, rows, columns, to, gpu);
    default:
      require(false, "only quantized types have blocks");
  }
}

}  // namespace deltasane::kernel::cuda
