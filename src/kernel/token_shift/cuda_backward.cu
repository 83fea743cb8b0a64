// The gradient of norm_shift, but for that of mu_tau (sane/cuda_weights_backward.cu).
//
//     du_t = sum_i dout_i,t (1 - mu_i) + sum_i dout_i,t+1 mu_i
//     dmu_i += dout_i,t (u_t-1 - u_t)
//
// and du goes through the layer norm; rows that end a chunk have one more mix, with mu_tau.
//
// A block processes rows of one sequence from the last to the first: what row t+1 adds to row t,
// and u_t-1, which is u of the next step, stay in registers. So x and every dout are read once, but
// for a row or two of each at a block's ends. Later rows are prefetched into shared memory by
// cp.async: every thread copies its own channels. The mean of a row is computed two rows ahead and
// its squares about it one row ahead, in the same reduction as the sums of the current row: one
// barrier a row.
#include <algorithm>

#include "base/choose.h"
#include "kernel/cuda/partial_sums.cuh"
#include "kernel/norm/cuda_moments.cuh"
#include "kernel/token_shift/cuda.h"
#include "kernel/token_shift/cuda_prefetch.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// Resident blocks per multiprocessor, where a row has up to 1024 channels: as registers allow.
constexpr int on_each(int mixes) { return mixes == 1 ? 4 : 3; }
constexpr int most_stages = 3;
constexpr int row_sums = 4;
constexpr int of_norm = 2;  // sets of sums: dweight and dbias; the mixes' dmu follow
using SumsMemory = float[32 * row_sums];
constexpr uint64_t sums_bytes = 2 * sizeof(SumsMemory);

struct RowPartition {
  int64_t rows, pieces, blocks;  // rows of a block, blocks of a sequence, of all
  int stages = 0;                // of the prefetch pipeline: rows in shared memory
  RowPartition(const RowBlock& of, int mixes) {
    const int64_t wanted = std::max<int64_t>(
        1, blocks_with_partials(on_each(mixes)) / std::max<int64_t>(1, of.sequences));
    rows = std::max<int64_t>(1, (of.time + wanted - 1) / wanted);
    pieces = (of.time + rows - 1) / rows;
    blocks = pieces * of.sequences;
  }
};

// `blocks`: resident ones per multiprocessor, which bounds the registers.
template <class Real, int mixes, int most_threads, int blocks>
__global__ void __launch_bounds__(most_threads, blocks)
    shift_backward_rows(const __grid_constant__ NormShiftGradient<Real> g,
                        const RowPartition partition) {
  constexpr int sets = of_norm + mixes;
  extern __shared__ uint4 shared[];
  BlockSums<row_sums> sums{reinterpret_cast<SumsMemory*>(shared)};
  const NormShift<Real>& op = g.op;
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t sequence = blockIdx.x / partition.pieces, time = op.rows.time;
  const int64_t begin = blockIdx.x % partition.pieces * partition.rows,
                end = min(time, begin + partition.rows);
  const int64_t first_row = sequence * time;
  const auto is_present = [&](int64_t t) { return !op.present || op.present[first_row + t]; };
  RowPipeline<Real, mixes> ahead{g, shared + sums_bytes / sizeof(uint4), partition.stages, mine};
  ahead.begin(end - 1, begin, (first_row + end - 1) * channels + c);
  const OwnMus<mixes> mus(op.mu, ahead.end(), partition.stages > 0, mine);

  float weight[octet] = {}, bias[octet] = {}, dweight[octet] = {}, dbias[octet] = {};
  float dmu[mixes][octet] = {};
  float later[octet] = {};  // sum_i dout_i,t+1 mu_i
  // For means of gradients; sums of moments are divided by channels, as in every kernel, for the
  // same bits.
  const float share = 1.0f / float(channels);
  const auto add_to_later = [&](const Packed<Real>& dout, const float(&mu)[octet]) {
    float d[octet];
    dout.unpack(d);
#pragma unroll
    for (int i = 0; i < octet; ++i) later[i] += d[i] * mu[i];
  };
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
  }
  // The mix with mu_tau of row t, which ends a chunk, by add(dout, mu).
  constexpr bool may_end_chunk = mixes == most_mixes;
  const auto with_tau = [&](int64_t t, auto&& add) {
    const int64_t place = sequence * op.chunks + (op.position + t) / op.chunk;
    float mu[octet] = {};
    if (mine) load(op.mu_tau + c, mu);
    add(mine ? Packed<Real>(g.dout_tau + place * channels + c) : Packed<Real>(), mu);
  };
  // Rows from the current one back to one that ends a chunk; below 0: none does.
  int to_end = may_end_chunk && g.dout_tau ? int((op.position + end) % op.chunk) : -1;
  if (end < time) {
    const int64_t at = (first_row + end) * channels + c;
#pragma unroll
    for (int m = 0; m < mixes; ++m) {
      float mu[octet];
      mus.get(m, mu);
      add_to_later(mine ? Packed<Real>(g.dout[m] + at) : Packed<Real>(), mu);
    }
    if (to_end == int(op.chunk) - 1) with_tau(end, add_to_later);
  }
  // x of the current row, as (x - mean) scale, and of the row before it.
  float x[2][octet] = {};
  if (mine) {
    const float* const last = op.x + (first_row + end - 1) * channels + c;
    load(last, x[0]);
    if (end > 1) load(last - channels, x[1]);
  }
  Moments of[2];
  moments_of(x, mine, channels, op.eps, sums, of);
#pragma unroll
  for (int i = 0; i < octet; ++i) x[0][i] = normal(x[0][i], of[0]);

  for (int64_t t = end - 1; t >= begin; --t) {
    const int64_t at = (first_row + t) * channels + c;
    ahead.wait_for(t, begin, at);
    float to_come[octet] = {}, du[octet];
    if (t > 1) ahead.two_before(at, to_come);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      du[i] = later[i];
      later[i] = 0;
    }
    const auto add_to_both = [&](const Packed<Real>& dout, const float(&mu)[octet]) {
      float d[octet];
      dout.unpack(d);
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        du[i] += d[i] * (1.0f - mu[i]);
        later[i] += d[i] * mu[i];
      }
    };
#pragma unroll
    for (int m = 0; m < mixes; ++m) {
      float mu[octet];
      mus.get(m, mu);
      add_to_both(ahead.dout(m, at), mu);
    }
    if constexpr (may_end_chunk) {
      if (to_end == 0) with_tau(t, add_to_both), to_end = int(op.chunk);
      --to_end;
    }
    const bool here = is_present(t), before_is = t > 0 && is_present(t - 1);
#pragma unroll
    for (int i = 0; i < octet; ++i) du[i] = here ? du[i] : 0.0f;
    float sum[row_sums] = {};
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      sum[0] += du[i] * weight[i];
      sum[1] += du[i] * weight[i] * x[0][i];
      const float away = x[1][i] - of[1].mean;
      if (mine) sum[2] = __fmaf_rn(away, away, sum[2]);
      sum[3] += to_come[i];
    }
    sums(sum);
    const float mean = sum[0] * share, along = sum[1] * share;
    of[1].scale = 1.0f / sqrtf(sum[2] / float(channels) + op.eps);
    float dx[octet], away[octet];  // away: u_t-1 - u_t
    ahead.dx(at, dx);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      dx[i] += of[0].scale * (du[i] * weight[i] - mean - x[0][i] * along);
      dweight[i] += du[i] * x[0][i];
      dbias[i] += du[i];
      const float u = here ? __fmaf_rn(x[0][i], weight[i], bias[i]) : 0.0f;
      x[0][i] = normal(x[1][i], of[1]);
      x[1][i] = to_come[i];
      away[i] = (before_is ? __fmaf_rn(x[0][i], weight[i], bias[i]) : 0.0f) - u;
    }
    if (mine) store(g.dx + at, dx);
    if (mine && g.dx_real) store(g.dx_real + at, dx);
#pragma unroll
    for (int m = 0; m < mixes; ++m) {
      float d[octet];
      ahead.dout(m, at).unpack(d);
#pragma unroll
      for (int i = 0; i < octet; ++i) dmu[m][i] += d[i] * away[i];
    }
    ahead.release();
    of[0] = of[1];
    of[1].mean = sum[3] / float(channels);
  }
  if (!mine) return;
  store_partial(g.scratch, sets, 0, channels, c, dweight);
  store_partial(g.scratch, sets, 1, channels, c, dbias);
#pragma unroll
  for (int m = 0; m < mixes; ++m) store_partial(g.scratch, sets, of_norm + m, channels, c, dmu[m]);
}

template <class Real, int mixes>
void backward(const NormShiftGradient<Real>& g, const Gpu& gpu) {
  const RowBlock& rows = g.op.rows;
  const unsigned threads = threads_of_row(rows.channels);
  RowPartition partition(rows, mixes);
  const uint64_t of_row = threads * RowPipeline<Real, mixes>::units * sizeof(uint4);
  const uint64_t of_mus = threads * OwnMus<mixes>::units * sizeof(float4);
  // A multiprocessor has a few KB more than one block may use, which several resident blocks need.
  const uint64_t capacity =
      threads <= 128 ? gpu.properties().shared_bytes / on_each(mixes) : gpu.properties().shared_bytes;
  while (partition.stages < most_stages &&
         sums_bytes + of_mus + (partition.stages + 1) * of_row <= capacity)
    ++partition.stages;
  const Grid grid{unsigned(partition.blocks), threads,
                  sums_bytes + (partition.stages ? of_mus + partition.stages * of_row : 0)};
  const auto run = [&](auto* kernel) {
    prefer_shared_carveout(kernel);
    launch(kernel, grid, gpu, g, partition);
  };
  if (threads <= 128)
    run(shift_backward_rows<Real, mixes, 128, on_each(mixes)>);
  else if (threads <= 512)
    run(shift_backward_rows<Real, mixes, 512, 1>);
  else  // the sums do not fit the registers of so many threads, and spill
    run(shift_backward_rows<Real, mixes, 1024, 1>);
  PartialSums sums{
      partition.blocks, rows.channels, of_norm + mixes, g.scratch, {g.dweight, g.dbias}};
  for (int m = 0; m < mixes; ++m) sums.to[of_norm + m] = g.dmu[m];
  add_partials(sums, gpu);
}

}  // namespace

int64_t norm_shift_scratch(const RowBlock& rows) {
  int64_t most = 0;
  for (int mixes = 1; mixes <= most_mixes; ++mixes)
    most = std::max(most, RowPartition(rows, mixes).blocks * (of_norm + mixes));
  return most * rows.channels;
}

template <class Real>
void norm_shift_backward(const NormShiftGradient<Real>& given, const Gpu& gpu) {
  NormShiftGradient<Real> g = given;
  const NormShift<Real>& op = g.op;
  if (op.rows.rows() == 0) return;
  if (g.dout_tau) {
    require(op.mixes == most_mixes, "the mix with mu_tau comes with six others");
    require(op.mu_tau && op.position >= 0 && op.chunk > 1, "the mix with mu_tau has its rows");
    g.op.position %= op.chunk;
    require(op.chunks == (op.position + op.rows.time) / op.chunk,
            "norm_shift_backward has the number of chunks that end in its rows");
    require_aligned(op.mu_tau, g.dout_tau);
  }
  require(op.before == nullptr, "norm_shift_backward is for sequences that start from zero");
  require_aligned(op.x, op.weight, op.bias, g.dx, g.dx_real, g.scratch);
  for (int i = 0; i < op.mixes; ++i) require_aligned(op.mu[i], g.dout[i]);
  choose<1, 6>(op.mixes, "mixes", [&]<int mixes>() { backward<Real, mixes>(g, gpu); });
}

template void norm_shift_backward(const NormShiftGradient<float>&, const Gpu&);
template void norm_shift_backward(const NormShiftGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
