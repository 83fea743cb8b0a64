#include "kernel/attention/cuda_inputs.h"

#include "kernel/attention/cache_rows.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int block_warps = channel_threads / 32;

// A warp has a head of a row: of queries, keys or values. What does not need the kernel before, the norm's
// weights and the rotary angle's cosines and sines, is in shared memory before its end is waited for.
template <class Real>
__global__ void __launch_bounds__(channel_threads)
    prepare_heads(const __grid_constant__ AttentionInputs<Real> op) {
  extern __shared__ float4 dynamic_shared[];  // (warps, 3, size)
  trigger_dependent_launch();
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, size = int(op.size);
  const int64_t heads = op.heads + 2 * op.kv_heads, i = int64_t(blockIdx.x) * block_warps + warp;
  if (i >= op.rows.rows * heads) return;
  const int64_t row = i / heads, head = i % heads;
  const int sequence = op.rows.sequence[row];
  const int64_t position = op.rows.position[sequence] + row - op.rows.first[sequence];
  Real* const x = op.x + row * op.step + head * size;
  Real* to = x;
  if (head >= op.heads)
    to = CacheRows<Real>(op.cache, sequence, 2 * op.kv_heads * size).at(position) +
         (head - op.heads) * size;
  if (head >= op.heads + op.kv_heads) {
    grid_dependency_synchronize();
    for (int c = lane; c < size; c += 32) to[c] = x[c];
    return;
  }

  float* const held = reinterpret_cast<float*>(dynamic_shared) + warp * 3 * size;
  float *const weight = held + size, *const cosine = weight + size;
  const float* const norm = head < op.heads ? op.q_norm : op.k_norm;
  const int half = int(op.rotary) / 2;
  float* const sine = cosine + half;
  for (int c = lane; c < size && norm; c += 32) weight[c] = norm[c];
  for (int c = lane; c < half; c += 32) {
    const double angle = double(position) * op.frequencies[c];
    cosine[c] = float(cos(angle)), sine[c] = float(sin(angle));
  }
  grid_dependency_synchronize();
  float squares = 0;
  for (int c = lane; c < size; c += 32) {
    held[c] = to_float(x[c]);
    squares = fmaf(held[c], held[c], squares);
  }
  const float scale = 1.0f / sqrtf(warp_sum(squares) / float(size) + op.eps);
  __syncwarp();
  const auto normal = [&](int c) { return norm ? held[c] * (scale * weight[c]) : held[c]; };
  for (int c = lane; c < half; c += 32) {
    const float a = normal(c), b = normal(c + half);
    store_one(to + c, a * cosine[c] - b * sine[c]);
    store_one(to + c + half, b * cosine[c] + a * sine[c]);
  }
  for (int c = 2 * half + lane; c < size; c += 32) store_one(to + c, normal(c));
}

}  // namespace

template <class Real>
void attention_inputs(const AttentionInputs<Real>& op, const Gpu& gpu) {
  const int64_t all = op.rows.rows * (op.heads + 2 * op.kv_heads);
  if (all == 0) return;
  require((op.q_norm != nullptr) == (op.k_norm != nullptr),
          "attention: expected norms of queries and keys, or of neither");
  prefer_shared_carveout(prepare_heads<Real>);
  launch_dependent(prepare_heads<Real>,
                   {unsigned((all + block_warps - 1) / block_warps), channel_threads,
                    size_t(block_warps * 3 * op.size) * sizeof(float)},
                   gpu, op);
}

template void attention_inputs(const AttentionInputs<float>&, const Gpu&);
template void attention_inputs(const AttentionInputs<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
