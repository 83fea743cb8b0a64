#include "kernel/matmul/cuda_digest.h"

#include <algorithm>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/gpu_tensor.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, on_each = 8;  // blocks on a multiprocessor
using Word64 = unsigned long long;

// A hash: every bit of x affects every bit of the result (the last steps of splitmix64).
__device__ Word64 mixed(Word64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// to: the sum, and how many are not 0; both are added to.
__global__ void __launch_bounds__(threads)
    add_words(const uint32_t* words, int64_t count, Word64* to) {
  Word64 sum = 0, nonzero = 0;
  for (int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * threads) {
    sum += mixed(Word64(i) << 32 | words[i]);
    nonzero += words[i] != 0;
  }
  sum = warp_total(sum), nonzero = warp_total(nonzero);
  if (threadIdx.x % 32 == 0) atomicAdd(to, sum), atomicAdd(to + 1, nonzero);
}

}  // namespace

Digest digest_of(const void* words, int64_t count, const Gpu& gpu) {
  GpuTensor<uint64_t> sums(gpu, {2}, "comparing results");
  sums.zero(gpu);
  const int64_t blocks = std::clamp<int64_t>((count + threads - 1) / threads, 1,
                                             on_each * gpu.properties().multiprocessors);
  launch(add_words, {unsigned(blocks), threads}, gpu, static_cast<const uint32_t*>(words), count,
         reinterpret_cast<Word64*>(sums.data()));
  const Tensor<uint64_t> here = sums.on_host(gpu);
  return {here[0], here[1]};
}

}  // namespace deltasane::kernel::cuda
