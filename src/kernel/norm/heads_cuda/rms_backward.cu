// Through y = x s weight act, s = 1 / sqrt(mean(x^2) + eps):
//
//     dx = s (dy weight act - x s^2 mean(dy weight act x))      dweight = sum dy x s act
//
// A block has a run of heads. Its threads keep the sums of dweight in shared memory, each those of
// its own channels; the sums of all blocks are added up afterwards.
#include "kernel/norm/heads_cuda/rms_backward.h"

#include <algorithm>

#include "kernel/activation/cuda_gate_value.cuh"
#include "kernel/norm/heads_cuda/head_threads.cuh"
#include "kernel/sums/columns_cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int most_channels = 8192;
constexpr int64_t most_blocks = 1056;  // the same on every GPU

struct HeadRuns {
  int64_t heads, blocks;  // heads of a block
  HeadRuns(int64_t all, int64_t at_once) {
    const int64_t turns = std::max<int64_t>(1, (all + at_once - 1) / at_once);
    heads = (turns + most_blocks - 1) / most_blocks * at_once;
    blocks = (all + heads - 1) / heads;
  }
};
int64_t heads_at_once(int64_t size) { return size >= long_head ? 1 : block_warps; }

template <int width, int warps, class Real, class Gradient>
__global__ void __launch_bounds__(channel_threads)
    rms_heads_backward(const __grid_constant__ RmsNormGradient<Real, Gradient> op, int64_t run,
                       float* partial) {
  __shared__ float of_groups[most_channels];
  __shared__ float place[2][64];
  BlockSums<2> block_sums{place};
  const HeadThreads<warps> threads;
  float* const dweight = of_groups + threads.group * op.size;
  threads.template each<width>(op.size, [&](int64_t c) {
#pragma unroll
    for (int i = 0; i < width; ++i) dweight[c + i] = 0;
  });
  const int64_t end = min(op.rows * op.heads, (blockIdx.x + 1) * run);
  for (int64_t head = blockIdx.x * run + threads.group; head < end; head += threads.groups) {
    const int64_t row = head / op.heads, first = head % op.heads * op.size, at = head * op.size;
    if (op.present && !op.present[row]) continue;
    // What y's factors are at channel c: x, dy, weight, and the gate's activation.
    const auto with = [&](int64_t c, auto&& use) {
      float x[width], dy[width], weight[width];
      GateValue act[width];
      load_channels<width>(op.x + at + c, x);
      load_channels<width>(op.dy + at + c, dy);
      load_channels<width>(op.weight + c, weight);
#pragma unroll
      for (int i = 0; i < width; ++i) act[i] = {1, 0};
      if (op.gate) {
        float gate[width], bias[width] = {};
        load_channels<width>(op.gate + at + c, gate);
        if (op.gate_bias) load_channels<width>(op.gate_bias + first + c, bias);
#pragma unroll
        for (int i = 0; i < width; ++i) act[i] = gate_value(op.activation, gate[i] + bias[i]);
      }
      use(x, dy, weight, act);
    };
    float sums[2] = {};  // of x^2 and dy weight act x
    threads.template each<width>(op.size, [&](int64_t c) {
      with(c, [&](const auto& x, const auto& dy, const auto& weight, const auto& act) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          sums[0] = fmaf(x[i], x[i], sums[0]);
          sums[1] = fmaf(dy[i] * weight[i] * act[i].value, x[i], sums[1]);
        }
      });
    });
    threads.sum(sums, block_sums);
    const float s = 1.0f / sqrtf(sums[0] / float(op.size) + op.eps);
    const float along = sums[1] / float(op.size) * s * s;
    threads.template each<width>(op.size, [&](int64_t c) {
      with(c, [&](const auto& x, const auto& dy, const auto& weight, const auto& act) {
        float dx[width], dgate[width];
#pragma unroll
        for (int i = 0; i < width; ++i) {
          dx[i] = s * (dy[i] * weight[i] * act[i].value - x[i] * along);
          dgate[i] = dy[i] * x[i] * s * weight[i] * act[i].derivative;
          dweight[c + i] = fmaf(dy[i] * x[i] * s, act[i].value, dweight[c + i]);
        }
        if (op.gate) store_channels<width>(op.dgate + at + c, dgate);
        if (op.add) {
          float before[width];
          load_channels<width>(op.dx + at + c, before);
#pragma unroll
          for (int i = 0; i < width; ++i) dx[i] += before[i];
        }
        store_channels<width>(op.dx + at + c, dx);
        if (op.rounded) store_channels<width>(op.rounded + at + c, dx);
      });
    });
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < op.size; c += channel_threads) {
    float sum = 0;
    for (int i = 0; i < threads.groups; ++i) sum += of_groups[i * op.size + c];
    partial[blockIdx.x * op.size + c] = sum;
  }
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    l2_heads_backward(const __grid_constant__ L2NormsGradient<Real> op) {
  const HeadThreads<1> threads;
  const int64_t of_one = op.rows * op.heads;
  if (threads.head >= 2 * of_one) return;
  const int which = threads.head >= of_one;
  const int64_t at = (threads.head - which * of_one) * op.size;
  const Real* const x = op.x[which] + at;
  Real* const d = op.d[which] + at;
  float squares = 0, along = 0;
  threads.template each<width>(op.size, [&](int64_t c) {
    float value[width], dy[width];
    load_channels<width>(x + c, value);
    load_channels<width>(d + c, dy);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      squares = fmaf(value[i], value[i], squares);
      along = fmaf(value[i], dy[i], along);
    }
  });
  const float s = 1.0f / sqrtf(warp_sum(squares) + op.eps);
  const float part = warp_sum(along) * s * s, factor = op.scale[which] * s;
  threads.template each<width>(op.size, [&](int64_t c) {
    float value[width], dy[width];
    load_channels<width>(x + c, value);
    load_channels<width>(d + c, dy);
#pragma unroll
    for (int i = 0; i < width; ++i) dy[i] = factor * (dy[i] - value[i] * part);
    store_channels<width>(d + c, dy);
  });
}

}  // namespace

int64_t rms_backward_scratch(int64_t rows, int64_t heads, int64_t size) {
  const int64_t blocks = HeadRuns(rows * heads, heads_at_once(size)).blocks;
  return blocks * size + column_sums_scratch(blocks, size);
}

template <class Real, class Gradient>
void rms_norm_backward(const RmsNormGradient<Real, Gradient>& op, const Gpu& gpu) {
  const int64_t all = op.rows * op.heads;
  require(!op.present || op.add, "rms_norm_backward: expected all rows present, or to add");
  require(bool(op.gate) == bool(op.dgate), "rms_norm_backward: expected a gate with its gradient");
  if (op.size > most_channels)
    fail(Fault::argument, "channels of a norm: expected up to ", most_channels, ", found ",
         op.size);
  if (all == 0) return;
  const HeadRuns runs(all, heads_at_once(op.size));
  const int64_t run = runs.heads;
  const bool eight = in_eights(
      {op.size}, {op.x, op.weight, op.dy, op.dx, op.rounded, op.gate, op.gate_bias, op.dgate});
  const Grid grid{unsigned(runs.blocks), channel_threads};
  with_width(eight, [&]<int width>() {
    if (op.size >= long_head)
      launch(rms_heads_backward<width, block_warps, Real, Gradient>, grid, gpu, op, run,
             op.scratch);
    else
      launch(rms_heads_backward<width, 1, Real, Gradient>, grid, gpu, op, run, op.scratch);
  });
  column_sums<float>({.rows = runs.blocks,
                      .columns = op.size,
                      .x = op.scratch,
                      .to = op.dweight,
                      .scratch = op.scratch + runs.blocks * op.size},
                     gpu);
}

template <class Real>
void l2_norms_backward(const L2NormsGradient<Real>& op, const Gpu& gpu) {
  const int64_t all = 2 * op.rows * op.heads;
  if (all == 0) return;
  with_width(in_eights({op.size}, {op.x[0], op.x[1], op.d[0], op.d[1]}), [&]<int width>() {
    launch(l2_heads_backward<width, Real>,
           {unsigned((all + block_warps - 1) / block_warps), channel_threads}, gpu, op);
  });
}

template void rms_norm_backward(const RmsNormGradient<float, float>&, const Gpu&);
template void rms_norm_backward(const RmsNormGradient<float, bf16>&, const Gpu&);
template void rms_norm_backward(const RmsNormGradient<bf16, bf16>&, const Gpu&);
template void l2_norms_backward(const L2NormsGradient<float>&, const Gpu&);
template void l2_norms_backward(const L2NormsGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
