#include "kernel/attention/cuda.h"

#include <type_traits>

#include "kernel/attention/cache_rows.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    append_rows(const __grid_constant__ AppendRows<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.row / width, row = i / pieces, c = i % pieces * width;
  if (row >= op.rows.rows) return;
  const int sequence = op.rows.sequence[row];
  const int64_t position = op.rows.position[sequence] + row - op.rows.first[sequence];
  float x[width];
  load_channels<width>(op.from + row * op.step + c, x);
  store_channels<width>(CacheRows<Real>(op.cache, sequence, op.row).at(position) + c, x);
}

}  // namespace

float* AttentionScratch::floats(const Gpu& gpu, int64_t count) {
  if (memory_.elements() < count) {
    gpu.wait();
    memory_ = GpuTensor<float>(gpu, {count}, "attention over a long cache");
  }
  return memory_.data();
}

template <class Real>
void append_to_cache(const AppendRows<Real>& op, const Gpu& gpu) {
  if (op.rows.rows == 0) return;
  with_width(in_eights({op.row, op.step}, {op.from}), [&]<int width>() {
    launch(append_rows<width, Real>,
           {blocks_for(op.rows.rows * (op.row / width)), channel_threads}, gpu, op);
  });
}

template <class Real>
void attention(const Attention<Real>& op, AttentionScratch& scratch, const Gpu& gpu) {
  require(op.kv_heads > 0 && op.heads % op.kv_heads == 0,
          "attention: expected heads that share keys and values");
  if (op.size > most_attention_channels)
    fail(Fault::device, "attention on a GPU: expected heads of up to ", most_attention_channels,
         " channels, found ", op.size, "; use the device cpu");
  constexpr int64_t few = 8;  // tokens of a sequence that are read row by row
  if constexpr (std::is_same_v<Real, bf16>)
    if (op.rows.longest > few && !op.latents && has_attention_tiles(op.size))
      return attention_by_tiles(op, gpu);
  attention_by_rows(op, scratch, gpu);
}

template void append_to_cache(const AppendRows<float>&, const Gpu&);
template void append_to_cache(const AppendRows<bf16>&, const Gpu&);
template void attention(const Attention<float>&, AttentionScratch&, const Gpu&);
template void attention(const Attention<bf16>&, AttentionScratch&, const Gpu&);

}  // namespace deltasane::kernel::cuda
