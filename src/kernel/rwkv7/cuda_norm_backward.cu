// The gradient of norm_shift.
//
//     du_t = sum_i dout_i,t (1 - mu_i) + sum_i dout_i,t+1 mu_i        dmu_i += dout_i,t (u_t-1 -
//     u_t)
//
// and du goes through the layer norm. A block walks rows of one sequence from the last to the
// first: what row t+1 gave to t, and u_t-1 which the next step needs as its u, stay in registers.
// So x and every dout are read once, but for one row of each at a block's ends.
#include <algorithm>

#include "base/choose.h"
#include "kernel/cuda_partials.cuh"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_norm.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

struct Walk {
  int64_t rows, pieces, blocks;  // rows of a block, blocks of a sequence, of all
  explicit Walk(const RowBlock& of)
      : rows(std::max<int64_t>(1, rows_to_walk(of.rows(), blocks_with_partials))),
        pieces((of.time + rows - 1) / rows),
        blocks(pieces * of.sequences) {}
};

// `with_tau`: mu_tau is one more mix, which only the rows that end a chunk have.
// `blocks`: how many a multiprocessor should hold, which bounds the registers.
template <class Real, int mixes, bool with_tau, int most_threads, int blocks>
__global__ void __launch_bounds__(most_threads, blocks)
    shift_backward_rows(const __grid_constant__ NormShiftGradient<Real> g, const Walk walk) {
  constexpr int sets = mixes + (with_tau ? 1 : 0) + 2;
  __shared__ float place[2][32 * 3];
  BlockSums<3> sums{place};
  const NormShift<Real>& op = g.op;
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t sequence = blockIdx.x / walk.pieces, time = op.rows.time;
  const int64_t begin = blockIdx.x % walk.pieces * walk.rows, end = min(time, begin + walk.rows);
  const int64_t first_row = sequence * time;

  const auto tokens_until = [&](int64_t t) { return uint32_t(op.position + t) + 1; };
  const auto ends_chunk = [&](int64_t t) {
    return with_tau && tokens_until(t) % uint32_t(op.chunk) == 0;
  };
  // Mix m of row t; that with mu_tau only where a chunk ends.
  const auto gradient = [&](int m, int64_t t) {
    if (!mine) return Packed<Real>();
    if (!with_tau || m < mixes) return Packed<Real>(g.dout[m] + (first_row + t) * channels + c);
    const int64_t chunk = int64_t(tokens_until(t) / uint32_t(op.chunk)) - 1;
    return Packed<Real>(g.dout_tau + (sequence * op.chunks + chunk) * channels + c);
  };
  // use(m) for each mix that row t has.
  const auto each_mix = [&](int64_t t, auto&& use) {
#pragma unroll
    for (int m = 0; m < mixes; ++m) use(m);
    if (ends_chunk(t)) use(mixes);
  };
  const auto load_mu = [&](int m, float(&mu)[octet]) {
    if (mine) load((with_tau && m == mixes ? op.mu_tau : op.mu[m]) + c, mu);
  };

  float weight[octet] = {}, bias[octet] = {}, dweight[octet] = {}, dbias[octet] = {};
  float dmu[mixes][octet] = {};
  // That of mu_tau, which few rows add to, is in shared memory: each thread's own, and no
  // registers.
  __shared__ float dmu_tau[octet][with_tau ? most_threads : 1];
  if constexpr (with_tau)
#pragma unroll
    for (int i = 0; i < octet; ++i) dmu_tau[i][threadIdx.x] = 0;
  float later[octet] = {};  // sum_i dout_i,t+1 mu_i
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
  }
  if (end < time)
    each_mix(end, [&](int m) {
      float d[octet], mu[octet] = {};
      gradient(m, end).unpack(d);
      load_mu(m, mu);
#pragma unroll
      for (int i = 0; i < octet; ++i) later[i] += d[i] * mu[i];
    });
  float x[1][octet] = {}, u[octet];  // x becomes (x - mean) scale
  if (mine) load(op.x + (first_row + end - 1) * channels + c, x[0]);
  Moments of[1];
  moments_of(x, mine, channels, op.eps, sums, of);
#pragma unroll
  for (int i = 0; i < octet; ++i) {
    x[0][i] = normal(x[0][i], of[0]);
    u[i] = __fmaf_rn(x[0][i], weight[i], bias[i]);
  }

  for (int64_t t = end - 1; t >= begin; --t) {
    const int64_t at = (first_row + t) * channels + c;
    Packed<Real> read[mixes];
#pragma unroll
    for (int m = 0; m < mixes; ++m) read[m] = gradient(m, t);
    const auto dout = [&](int m) {  // few rows have the last: it is read where it is used
      return !with_tau || m < mixes ? read[m] : gradient(m, t);
    };
    float before[octet] = {}, dx[octet] = {}, du[octet];
    if (mine) {
      if (t > 0) load(op.x + at - channels, before);
      load(g.dx + at, dx);
    }
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      du[i] = later[i];
      later[i] = 0;
    }
    each_mix(t, [&](int m) {
      float d[octet], mu[octet] = {};
      dout(m).unpack(d);
      load_mu(m, mu);
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        du[i] += d[i] * (1.0f - mu[i]);
        later[i] += d[i] * mu[i];
      }
    });
    float sum[3] = {};
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      sum[0] += du[i] * weight[i];
      sum[1] += du[i] * weight[i] * x[0][i];
      sum[2] += before[i];
    }
    sums(sum);
    const float mean = sum[0] / float(channels), along = sum[1] / float(channels);
    Moments of_before;
    of_before.mean = sum[2] / float(channels);
    float squares[1] = {};
    if (mine)
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        const float away = before[i] - of_before.mean;
        squares[0] = __fmaf_rn(away, away, squares[0]);
      }
    sums(squares);
    of_before.scale = 1.0f / sqrtf(squares[0] / float(channels) + op.eps);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      dx[i] += of[0].scale * (du[i] * weight[i] - mean - x[0][i] * along);
      dweight[i] += du[i] * x[0][i];
      dbias[i] += du[i];
      x[0][i] = normal(before[i], of_before);
      before[i] = t > 0 ? __fmaf_rn(x[0][i], weight[i], bias[i]) : 0.0f;  // from here on: u
      u[i] = before[i] - u[i];                                            // and the difference
    }
    if (mine) store(g.dx + at, dx);
    if (mine && g.dx_real) store(g.dx_real + at, dx);
    each_mix(t, [&](int m) {
      float d[octet];
      dout(m).unpack(d);
#pragma unroll
      for (int i = 0; i < octet; ++i)
        if (!with_tau || m < mixes)
          dmu[m][i] += d[i] * u[i];
        else
          dmu_tau[i][threadIdx.x] += d[i] * u[i];
    });
#pragma unroll
    for (int i = 0; i < octet; ++i) u[i] = before[i];
    of[0] = of_before;
  }
  if (!mine) return;
  leave_partial(g.scratch, sets, 0, channels, c, dweight);
  leave_partial(g.scratch, sets, 1, channels, c, dbias);
#pragma unroll
  for (int m = 0; m < mixes; ++m) leave_partial(g.scratch, sets, 2 + m, channels, c, dmu[m]);
  if constexpr (with_tau) {
    float own[octet];
#pragma unroll
    for (int i = 0; i < octet; ++i) own[i] = dmu_tau[i][threadIdx.x];
    leave_partial(g.scratch, sets, 2 + mixes, channels, c, own);
  }
}

template <class Real, int mixes, bool with_tau>
void backward(const NormShiftGradient<Real>& g, const Gpu& gpu) {
  const RowBlock& rows = g.op.rows;
  const unsigned threads = threads_of_row(rows.channels);
  const Walk walk(rows);
  const Grid grid{unsigned(walk.blocks), threads};
  if (threads <= 128)
    launch(shift_backward_rows<Real, mixes, with_tau, 128, 3>, grid, gpu, g, walk);
  else if (threads <= 512)
    launch(shift_backward_rows<Real, mixes, with_tau, 512, 1>, grid, gpu, g, walk);
  else  // the sums do not fit in the registers of so many threads, and go to memory
    launch(shift_backward_rows<Real, mixes, with_tau, 1024, 1>, grid, gpu, g, walk);
  PartialSums sums{
      walk.blocks, rows.channels, mixes + (with_tau ? 1 : 0) + 2, g.scratch, {g.dweight, g.dbias}};
  for (int m = 0; m < mixes; ++m) sums.to[2 + m] = g.dmu[m];
  if (with_tau) sums.to[2 + mixes] = g.dmu_tau;
  add_partials(sums, gpu);
}

}  // namespace

int64_t norm_shift_scratch(const RowBlock& rows) {
  return Walk(rows).blocks * most_sets * rows.channels;
}

template <class Real>
void norm_shift_backward(const NormShiftGradient<Real>& given, const Gpu& gpu) {
  NormShiftGradient<Real> g = given;
  const NormShift<Real>& op = g.op;
  if (op.rows.rows() == 0) return;
  require(op.position >= 0 && op.chunk > 0 && op.chunk + op.rows.time < int64_t{1} << 31,
          "positions count from 0, and rows of a sequence in 31 bits");
  g.op.position %= op.chunk;
  require(op.before == nullptr, "norm_shift_backward is for sequences that start from nothing");
  if (op.mu_tau) require(g.dout_tau || op.chunks == 0, "the mix with mu_tau has a gradient");
  if (op.mu_tau)
    require(op.chunks == (op.position + op.rows.time) / op.chunk,
            "norm_shift is told how many chunks end in its rows");
  require_aligned(op.x, op.weight, op.bias, op.mu_tau, g.dout_tau, g.dx, g.dx_real, g.scratch);
  for (int i = 0; i < op.mixes; ++i) require_aligned(op.mu[i], g.dout[i]);
  choose<1, 6>(op.mixes, "mixes", [&]<int mixes>() {
    if (op.mu_tau == nullptr) return backward<Real, mixes, false>(g, gpu);
    if constexpr (mixes == 6)
      backward<Real, mixes, true>(g, gpu);
    else
      require(false, "only the time mix has mu_tau");
  });
}

template void norm_shift_backward(const NormShiftGradient<float>&, const Gpu&);
template void norm_shift_backward(const NormShiftGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
