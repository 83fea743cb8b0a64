#include "kernel/token_shift/cuda.h"

#include "kernel/norm/cuda_rows.cuh"

namespace deltasane::kernel::cuda {
namespace {

// A block processes rows of one sequence, `together` at a time: their reductions share barriers,
// and each mu is loaded once for all of them. `once`: it has no more rows, and the row before them
// shares their reductions too; so does the last row of all, in the block that has none before.
template <class Real, int together, int most_threads, bool once>
__global__ void __launch_bounds__(most_threads, most_threads <= 256 ? 2 : 1)
    norm_shift_rows(const __grid_constant__ NormShift<Real> op, int64_t rows_per_block,
                    int64_t pieces) {
  trigger_dependent_launch();
  grid_dependency_synchronize();
  __shared__ float place[2][32 * (together + 1)];
  BlockSums<together + 1> sums{place};
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t sequence = blockIdx.x / pieces, time = op.rows.time;
  const int64_t begin = blockIdx.x % pieces * rows_per_block,
                end = min(time, begin + rows_per_block);
  const int64_t first_row = sequence * time;
  const auto is_present = [&](int64_t t) { return !op.present || op.present[first_row + t]; };
  const auto load_row = [&](int64_t t, float (&x)[octet]) {
    if (mine) load(op.x + (first_row + t) * channels + c, x);
  };
  float weight[octet] = {}, bias[octet] = {}, before[octet] = {};
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
  }
  const auto normalize = [&](float (&x)[octet], const Moments& of, bool here) {
#pragma unroll
    for (int i = 0; i < octet; ++i)
      x[i] = here ? normalized(x[i], of, weight[i], bias[i]) : 0.0f;
  };
  // `last` may be `before`: where there are several blocks, the one that reads this writes it.
  const bool ends_others = pieces > 1 && begin == 0 && op.last;
  if (begin == 0) {
    if (op.before && mine) load(op.before + sequence * channels + c, before);
  } else if constexpr (!once) {
    float x[1][octet] = {};
    load_row(begin - 1, x[0]);
    Moments of[1];
    moments_of(x, mine, channels, op.eps, sums, of);
    normalize(x[0], of[0], is_present(begin - 1));
#pragma unroll
    for (int i = 0; i < octet; ++i) before[i] = x[0][i];
  }
  for (int64_t t = begin; t < end; t += together) {
    constexpr int earlier = once ? 1 : 0;  // rows before t
    float x[earlier + together][octet] = {}, u[together][octet];
#pragma unroll
    for (int r = 0; r < earlier + together; ++r)
      if (const int64_t own = t + r - earlier; own >= 0 && own < end) load_row(own, x[r]);
    if (once && ends_others) load_row(time - 1, x[0]);
    Moments of[earlier + together];
    moments_of(x, mine, channels, op.eps, sums, of);
#pragma unroll
    for (int r = 0; r < earlier + together; ++r) {
      const int64_t own = t + r - earlier;
      normalize(x[r], of[r], own < 0 || own >= end || is_present(own));
    }
#pragma unroll
    for (int r = 0; r < together; ++r)
#pragma unroll
      for (int i = 0; i < octet; ++i) u[r][i] = x[earlier + r][i];
    if (once && ends_others && mine) store(op.last + sequence * channels + c, x[0]);
    if (once && begin > 0)
#pragma unroll
      for (int i = 0; i < octet; ++i) before[i] = x[0][i];
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
        if (op.last && pieces == 1 && t + r == time - 1)
          store(op.last + sequence * channels + c, u[r]);
    }
#pragma unroll
    for (int i = 0; i < octet; ++i) before[i] = u[together - 1][i];
  }
  if (once || !ends_others) return;
  float x[1][octet] = {};
  load_row(time - 1, x[0]);
  Moments of[1];
  moments_of(x, mine, channels, op.eps, sums, of);
  normalize(x[0], of[0], true);
  if (mine) store(op.last + sequence * channels + c, x[0]);
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
  const Grid grid{unsigned(pieces * rows.sequences), threads};
  const bool once = rows_per_block == together;
  const auto kernel = threads > 256 ? norm_shift_rows<Real, 2, 1024, false>
                      : once        ? norm_shift_rows<Real, together, 256, true>
                                    : norm_shift_rows<Real, together, 256, false>;
  if (rows.overlaps())
    launch_dependent(kernel, grid, gpu, op, rows_per_block, pieces);
  else
    launch(kernel, grid, gpu, op, rows_per_block, pieces);
}

template void norm_shift(const NormShift<float>&, const Gpu&);
template void norm_shift(const NormShift<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
