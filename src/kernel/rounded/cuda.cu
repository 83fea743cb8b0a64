#include "kernel/rounded/cuda.h"

#include <cuda_bf16.h>

#include "base/error.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

__device__ uint32_t pair(float low, float high) {
  return uint32_t(__bfloat16_as_ushort(__float2bfloat16_rn(low))) |
         uint32_t(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16;
}

__global__ void round_octets(const float4* from, uint4* to, int64_t octets) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= octets) return;
  const float4 a = from[2 * i], b = from[2 * i + 1];
  to[i] = make_uint4(pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w));
}

}  // namespace

void rounded(const float* from, bf16* to, int64_t count, const Gpu& gpu) {
  require(count % 8 == 0, "rounded: expected a multiple of 8 numbers");
  if (count == 0) return;
  constexpr unsigned threads = 256;
  const int64_t octets = count / 8;
  launch(round_octets, {dim3(unsigned((octets + threads - 1) / threads)), dim3(threads)}, gpu,
         reinterpret_cast<const float4*>(from), reinterpret_cast<uint4*>(to), octets);
}

}  // namespace deltasane::kernel::cuda
