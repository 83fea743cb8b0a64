#include "kernel/token_shift/cuda.h"

#include "kernel/norm/cuda_rows.cuh"

namespace deltasane::kernel::cuda {
namespace {

// A block processes rows of one sequence, `together` at a time: their reductions share barriers,
// and each mu is loaded once for all of them.
template <class Real, int together, int most_threads>
__global__ void __launch_bounds__(most_threads, most_threads <= 256 ? 2 : 1)
    norm_shift_rows(const __grid_constant__ NormShift<Real> op, int64_t rows_per_block,
                    int64_t pieces) {
  __shared__ float place[2][32 * together];
  BlockSums<together> sums{place};
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t sequence = blockIdx.x / pieces, time = op.rows.time;
  const int64_t begin = blockIdx.x % pieces * rows_per_block,
                end = min(time, begin + rows_per_block);
  const int64_t first_row = sequence * time;
  const auto is_present = [&](int64_t t) { return !op.present || op.present[first_row + t]; };
  float weight[octet] = {}, bias[octet] = {}, before[octet] = {};
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
  }
  if (begin > 0) {
    float x[1][octet] = {};
    if (mine) load(op.x + (first_row + begin - 1) * channels + c, x[0]);
    Moments of[1];
    moments_of(x, mine, channels, op.eps, sums, of);
#pragma unroll
    for (int i = 0; i < octet; ++i)
      before[i] = is_present(begin - 1) ? normalized(x[0][i], of[0], weight[i], bias[i]) : 0.0f;
  } else if (op.before && mine) {
    load(op.before + sequence * channels + c, before);
  }
  for (int64_t t = begin; t < end; t += together) {
    float u[together][octet] = {};
#pragma unroll
    for (int r = 0; r < together; ++r)
      if (mine && t + r < end) load(op.x + (first_row + t + r) * channels + c, u[r]);
    Moments of[together];
    moments_of(u, mine, channels, op.eps, sums, of);
#pragma unroll
    for (int r = 0; r < together; ++r) {
      const bool here = t + r >= end || is_present(t + r);
#pragma unroll
      for (int i = 0; i < octet; ++i)
        u[r][i] = here ? normalized(u[r][i], of[r], weight[i], bias[i]) : 0.0f;
    }
    // out[wanted(t)] = map(p - u, u, channel) for the rows from t on; wanted(t) below 0: no output
    const auto write = [&](Real* out, auto wanted, auto map) {
#pragma unroll
      for (int r = 0; r < together; ++r) {
        const int64_t place_of_row = t + r < end ? wanted(t + r) : -1;
        if (place_of_row < 0) continue;
        float y[octet];
#pragma unroll
        for (int i = 0; i < octet; ++i)
          y[i] = map((r == 0 ? before[i] : u[r > 0 ? r - 1 : 0][i]) - u[r][i], u[r][i], i);
        store(out + place_of_row * channels + c, y);
      }
    };
    const auto mix = [&](const float* from, Real* out, auto wanted) {
      float mu[octet];
      load(from + c, mu);
      write(out, wanted, [&](float away, float now, int i) { return __fmaf_rn(away, mu[i], now); });
    };
    if (mine) {
#pragma unroll
      for (int m = 0; m < most_mixes; ++m)
        if (m < op.mixes) mix(op.mu[m], op.out[m], [&](int64_t at) { return first_row + at; });
      const uint32_t count = uint32_t(op.position + t), chunk = uint32_t(op.chunk);
      const uint32_t ended = count / chunk, last = (ended + 1) * chunk - 1 - count;  // of t + last
      if (op.mu_tau && last < together) {  // some end a chunk
        // Called for each row from t on, in order.
        const auto end_of_chunk = [chunk, to_go = last,
                                   place = sequence * op.chunks + ended](int64_t) mutable {
          const bool ends = to_go == 0;
          to_go = ends ? chunk - 1 : to_go - 1;
          return ends ? place++ : int64_t{-1};
        };
        mix(op.mu_tau, op.out_tau, end_of_chunk);
        if (op.away_tau)
          write(op.away_tau, end_of_chunk, [](float away, float, int) { return away; });
      }
#pragma unroll
      for (int r = 0; r < together; ++r)
        if (op.last && t + r == time - 1) store(op.last + sequence * channels + c, u[r]);
    }
#pragma unroll
    for (int i = 0; i < octet; ++i) before[i] = u[together - 1][i];
  }
}

}  // namespace

template <class Real>
void norm_shift(const NormShift<Real>& given, const Gpu& gpu) {
  NormShift<Real> op = given;
  const RowBlock& rows = op.rows;
  const unsigned threads = threads_of_row(rows.channels);
  require(op.mixes >= 0 && op.mixes <= most_mixes, "norm_shift has up to six mixes");
  require(op.position >= 0 && op.chunk > 0 && op.chunk + rows.time < int64_t{1} << 31,
          "positions count from 0, and rows of a sequence in 31 bits");
  require(!op.present || !op.last, "norm_shift with padding keeps no last row");
  op.position %= op.chunk;
  require_aligned(op.x, op.weight, op.bias, op.before, op.last, op.mu_tau, op.out_tau, op.away_tau);
  for (int i = 0; i < op.mixes; ++i) require_aligned(op.mu[i], op.out[i]);
  if (rows.rows() == 0) return;
  if (op.mu_tau)
    require(op.chunks == (op.position + rows.time) / op.chunk,
            "norm_shift has the number of chunks that end in its rows");
  constexpr int together = 4;
  const int64_t wanted = rows_per_block(rows.rows(), 1056);
  const int64_t rows_per_block = (wanted + together - 1) / together * together;
  const int64_t pieces = (rows.time + rows_per_block - 1) / rows_per_block;
  // `last` may be `before`, which a block may still be reading when another one reaches the last
  // row: with several blocks the last rows are normalized again by a kernel of their own.
  if (pieces > 1) op.last = nullptr;
  const Grid grid{unsigned(pieces * rows.sequences), threads};
  if (threads <= 256)
    launch(norm_shift_rows<Real, together, 256>, grid, gpu, op, rows_per_block, pieces);
  else
    launch(norm_shift_rows<Real, 2, 1024>, grid, gpu, op, rows_per_block, pieces);
  if (pieces > 1 && given.last)
    norm_rows<float, float>(rows.sequences,
                            {op.x, nullptr, rows.time - 1, rows.time, rows.channels, op.weight,
                             op.bias, op.eps, given.last},
                            gpu);
}

template void norm_shift(const NormShift<float>&, const Gpu&);
template void norm_shift(const NormShift<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
