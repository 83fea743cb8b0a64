// The gradient of the mix with mu_tau, which only the rows that end a chunk have:
//
//     du_t = dout (1 - mu)        du_t-1 = dout mu        dmu += dout (u_t-1 - u_t)
//
// and du goes through the layer norm, which is linear in it. So this need not be part of the walk
// over all rows (cuda_norm_backward.cu), where every row would lose by it. A block has a few ends
// of chunks, one after the other.
#include <algorithm>

#include "kernel/cuda_partials.cuh"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_norm.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int sets = 3;     // dweight, dbias and dmu
constexpr int on_each = 4;  // multiprocessor: blocks

// How many ends a block has, and how many blocks there are.
struct Share {
  int64_t ends, blocks;
  explicit Share(int64_t all)
      : ends(std::max<int64_t>(1, rows_to_walk(all, blocks_with_partials(on_each)))),
        blocks((all + ends - 1) / ends) {}
};

// All that an end has for itself is asked for at once.
// `blocks`: how many a multiprocessor should hold at least, which bounds the registers.
template <class Real, int most_threads, int blocks>
__global__ void __launch_bounds__(most_threads, blocks)
    walk_ends(const __grid_constant__ TauShiftGradient<Real> g, const Share share) {
  __shared__ float places[2][32 * 4];
  BlockSums<4> sums{places};
  const NormShift<Real>& op = g.op;
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t first = blockIdx.x * share.ends;
  const int64_t last = min(first + share.ends, op.rows.sequences * op.chunks);
  float dweight[octet] = {}, dbias[octet] = {}, dmu[octet] = {};
  for (int64_t end = first; end < last; ++end) {
    const int64_t t = (end % op.chunks + 1) * op.chunk - 1 - op.position;  // row of its sequence
    const int64_t at = (end / op.chunks * op.rows.time + t) * channels + c;
    const bool has[2] = {mine, mine && t > 0};  // this row, and the one before it
    float x[2][octet] = {}, dx[2][octet] = {}, d[octet] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (has[r]) load(op.x + at - r * channels, x[r]), load(g.dx + at - r * channels, dx[r]);
    if (mine) load(g.dout + end * channels + c, d);
    Moments of[2];
    moments_of(x, mine, channels, op.eps, sums, of);
    float mu[octet] = {}, weight[octet] = {}, bias[octet] = {};
    if (mine) load(op.mu_tau + c, mu), load(op.weight + c, weight), load(op.bias + c, bias);
    float du[2][octet], sum[4] = {};
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      du[0][i] = d[i] * (1.0f - mu[i]), du[1][i] = has[1] ? d[i] * mu[i] : 0.0f;
      float u[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        x[r][i] = normal(x[r][i], of[r]);
        u[r] = has[r] ? __fmaf_rn(x[r][i], weight[i], bias[i]) : 0.0f;
        dweight[i] += du[r][i] * x[r][i], dbias[i] += du[r][i];
        du[r][i] *= weight[i];
        sum[2 * r] += du[r][i], sum[2 * r + 1] += du[r][i] * x[r][i];
      }
      dmu[i] += d[i] * (u[1] - u[0]);
    }
    sums(sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!has[r]) continue;
      const float mean = sum[2 * r] / float(channels), along = sum[2 * r + 1] / float(channels);
#pragma unroll
      for (int i = 0; i < octet; ++i) dx[r][i] += of[r].scale * (du[r][i] - mean - x[r][i] * along);
      store(g.dx + at - r * channels, dx[r]);
    }
  }
  if (!mine) return;
  leave_partial(g.scratch, sets, 0, channels, c, dweight);
  leave_partial(g.scratch, sets, 1, channels, c, dbias);
  leave_partial(g.scratch, sets, 2, channels, c, dmu);
}

}  // namespace

int64_t tau_shift_scratch(int64_t ends, int64_t channels) {
  return Share(ends).blocks * sets * channels;
}

template <class Real>
void tau_shift_backward(const TauShiftGradient<Real>& given, const Gpu& gpu) {
  TauShiftGradient<Real> g = given;
  const NormShift<Real>& op = g.op;
  const int64_t ends = op.rows.sequences * op.chunks;
  if (ends == 0) return;
  require(op.position >= 0 && op.chunk > 1, "positions count from 0, and a chunk has two rows");
  g.op.position %= op.chunk;
  require(op.chunks == (op.position + op.rows.time) / op.chunk,
          "the mix with mu_tau is told how many chunks end in its rows");
  require(op.mu_tau && g.dout, "the mix with mu_tau has a gradient");
  require(op.before == nullptr, "the mix with mu_tau has a gradient in sequences from their start");
  require_aligned(op.x, op.weight, op.bias, op.mu_tau, g.dout, g.dx, g.scratch);
  const Share share(ends);
  const unsigned threads = threads_of_row(op.rows.channels);
  const Grid grid{unsigned(share.blocks), threads};
  if (threads <= 128)
    launch(walk_ends<Real, 128, on_each>, grid, gpu, g, share);
  else  // the sums do not fit in the registers of so many threads, and go to memory
    launch(walk_ends<Real, 1024, 1>, grid, gpu, g, share);
  add_partials({share.blocks, op.rows.channels, sets, g.scratch, {g.dweight, g.dbias, g.dmu}}, gpu);
}

template void tau_shift_backward(const TauShiftGradient<float>&, const Gpu&);
template void tau_shift_backward(const TauShiftGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
