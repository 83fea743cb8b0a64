// Through y = x s weight act, s = 1 / sqrt(mean(x^2) + eps):
//
//     dx = s (dy weight act - x s^2 mean(dy weight act x))      dweight = sum dy x s act
//
// A block has a run of heads. Its threads keep the sums of dweight, each those of its own channels; the
// sums of all blocks are added up afterwards.
#include "kernel/norm/heads_cuda/rms_backward.h"

#include <algorithm>

#include "kernel/activation/cuda_gate_value.cuh"
#include "kernel/norm/heads_cuda/head_threads.cuh"
#include "kernel/sums/columns_cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int most_channels = 8192;
constexpr int64_t most_blocks = 528;  // the same on every GPU

struct HeadRuns {
  int64_t heads, blocks;  // heads of a block
  HeadRuns(int64_t all, int64_t at_once) {
    const int64_t turns = std::max<int64_t>(1, (all + at_once - 1) / at_once);
    heads = (turns + most_blocks - 1) / most_blocks * at_once;
    blocks = (all + heads - 1) / heads;
  }
};
int64_t heads_at_once(int64_t size) { return size >= long_head ? 1 : block_warps; }

template <int width, int warps, int pieces, class Real, class Gradient>
__global__ void __launch_bounds__(channel_threads, pieces == 4 && sizeof(Real) == 4 ? 1 : 2)
    rms_heads_backward(const __grid_constant__ RmsNormGradient<Real, Gradient> op, int64_t run,
                       float* partial) {
  constexpr bool is_long = pieces == 4 && sizeof(Real) == 4;  // a block of a multiprocessor
  constexpr bool keeps_gates = pieces == 1 || pieces == 2;    // of more, there are no registers
  __shared__ float of_groups[most_channels];
  __shared__ float place[2][64];
  BlockSums<2> block_sums{place};
  const HeadThreads<warps> threads;
  float* const dweight = of_groups + threads.group * op.size;
  float held_dweight[pieces == 0 ? 1 : pieces][width] = {};
  threads.template each_piece<width, pieces>(op.size, [&](int, int64_t c) {
#pragma unroll
    for (int i = 0; i < width; ++i) dweight[c + i] = 0;
  });
  const int64_t end = min(op.rows * op.heads, (blockIdx.x + 1) * run);
  for (int64_t head = blockIdx.x * run + threads.group; head < end; head += threads.groups) {
    const int64_t row = head / op.heads, first = head % op.heads * op.size, at = head * op.size;
    if (op.present && !op.present[row]) continue;
    const HeadChannels<width, pieces, Real> all_x(threads, op.x + at, op.size);
    const HeadChannels<width, pieces, Gradient> all_dy(threads, op.dy + at, op.size);
    const HeadChannels<width, is_long ? pieces : 0, Real> all_before(threads, op.dx + at,
                                                                     op.add ? op.size : 0);
    GateValue gates[keeps_gates ? pieces : 1][width];
    const auto activate = [&](int64_t c, GateValue(&act)[width]) {
#pragma unroll
      for (int i = 0; i < width; ++i) act[i] = {1, 0};
      if (!op.gate) return;
      float gate[width], bias[width] = {};
      load_channels<width>(op.gate + at + c, gate);
      if (op.gate_bias) load_channels<width>(op.gate_bias + first + c, bias);
#pragma unroll
      for (int i = 0; i < width; ++i) act[i] = gate_value(op.activation, gate[i] + bias[i]);
    };
    // What y's factors are at channel c: x, dy, weight, and the gate's activation.
    const auto with = [&](bool again, int piece, int64_t c, auto&& use) {
      float x[width], dy[width], weight[width];
      all_x.get(piece, c, x), all_dy.get(piece, c, dy);
      load_channels<width>(op.weight + c, weight);
      GateValue(&act)[width] = gates[keeps_gates ? piece : 0];
      if (!keeps_gates || !again) activate(c, act);
      use(x, dy, weight, act);
    };
    float sums[2] = {};  // of x^2 and dy weight act x
    threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
      with(false, piece, c, [&](const auto& x, const auto& dy, const auto& weight, const auto& act) {
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
    threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
      with(true, piece, c, [&](const auto& x, const auto& dy, const auto& weight, const auto& act) {
        float dx[width], dgate[width];
#pragma unroll
        for (int i = 0; i < width; ++i) {
          dx[i] = s * (dy[i] * weight[i] * act[i].value - x[i] * along);
          dgate[i] = dy[i] * x[i] * s * weight[i] * act[i].derivative;
          float& sum = pieces == 0 ? dweight[c + i] : held_dweight[piece][i];
          sum = fmaf(dy[i] * x[i] * s, act[i].value, sum);
        }
        if (op.gate) store_channels<width>(op.dgate + at + c, dgate);
        if (op.add) {
          float before[width];
          all_before.get(piece, c, before);
#pragma unroll
          for (int i = 0; i < width; ++i) dx[i] += before[i];
        }
        store_channels<width>(op.dx + at + c, dx);
        if (op.rounded) store_channels<width>(op.rounded + at + c, dx);
      });
    });
  }
  if constexpr (pieces > 0)
    threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
#pragma unroll
      for (int i = 0; i < width; ++i) dweight[c + i] = held_dweight[piece][i];
    });
  __syncthreads();
  for (int64_t c = threadIdx.x; c < op.size; c += channel_threads) {
    float sum = 0;
    for (int i = 0; i < threads.groups; ++i) sum += of_groups[i * op.size + c];
    partial[blockIdx.x * op.size + c] = sum;
  }
}

template <int width, int warps, int pieces, class Real>
__global__ void __launch_bounds__(channel_threads)
    l2_heads_backward(const __grid_constant__ L2NormsGradient<Real> op) {
  __shared__ float place[2][64];
  BlockSums<2> block_sums{place};
  const HeadThreads<warps> threads;
  const int64_t of_one = op.rows * op.heads;
  if (threads.head >= 2 * of_one) return;
  const int which = threads.head >= of_one;
  const int64_t at = (threads.head - which * of_one) * op.size;
  Real* const d = op.d[which] + at;
  const HeadChannels<width, pieces, Real> all_x(threads, op.x[which] + at, op.size);
  const HeadChannels<width, pieces, Real> all_dy(threads, d, op.size);
  float sums[2] = {};  // of x^2 and x dy
  threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
    float x[width], dy[width];
    all_x.get(piece, c, x), all_dy.get(piece, c, dy);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sums[0] = fmaf(x[i], x[i], sums[0]);
      sums[1] = fmaf(x[i], dy[i], sums[1]);
    }
  });
  threads.sum(sums, block_sums);
  const float s = 1.0f / sqrtf(sums[0] + op.eps);
  const float part = sums[1] * s * s, factor = op.scale[which] * s;
  threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
    float x[width], dy[width];
    all_x.get(piece, c, x), all_dy.get(piece, c, dy);
#pragma unroll
    for (int i = 0; i < width; ++i) dy[i] = factor * (dy[i] - x[i] * part);
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
  with_head_threads(eight, op.size, [&]<int width, int warps, int pieces>() {
    launch(rms_heads_backward<width, warps, pieces, Real, Gradient>, grid, gpu, op, run,
           op.scratch);
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
  const bool eight = in_eights({op.size}, {op.x[0], op.x[1], op.d[0], op.d[1]});
  with_head_threads(eight, op.size, [&]<int width, int warps, int pieces>() {
    launch(l2_heads_backward<width, warps, pieces, Real>,
           {blocks_of_heads<warps>(all), channel_threads}, gpu, op);
  });
}

template void rms_norm_backward(const RmsNormGradient<float, float>&, const Gpu&);
template void rms_norm_backward(const RmsNormGradient<float, bf16>&, const Gpu&);
template void rms_norm_backward(const RmsNormGradient<bf16, bf16>&, const Gpu&);
template void l2_norms_backward(const L2NormsGradient<float>&, const Gpu&);
template void l2_norms_backward(const L2NormsGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
