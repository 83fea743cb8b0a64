// embed, layer_norm and norm_shift: what stands between the residual stream and matrix products.
#include "kernel/rwkv7/cuda_norm.cuh"

#include "kernel/rwkv7/cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// y[row] = layer_norm(x[index of row]), or the row itself without a norm.
template <class In, class Out>
struct NormRows {
  const In* x;
  const int32_t* index;  // null: first + row step
  int64_t first, step, channels;
  const float *weight, *bias;  // null: no norm
  float eps;
  Out* y;
};

template <class In, class Out>
__global__ void __launch_bounds__(1024) norm_each(const __grid_constant__ NormRows<In, Out> op) {
  __shared__ float place[2][32];
  BlockSums<1> sums{place};
  const int channels = int(op.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t row = blockIdx.x;
  const int64_t from = op.index ? int64_t(op.index[row]) : op.first + row * op.step;
  float x[1][octet] = {};
  if (mine) load(op.x + from * channels + c, x[0]);
  if (op.weight) {
    Moments of[1];
    moments_of(x, mine, channels, op.eps, sums, of);
    if (!mine) return;
    float weight[octet], bias[octet];
    load(op.weight + c, weight);
    load(op.bias + c, bias);
#pragma unroll
    for (int i = 0; i < octet; ++i) x[0][i] = normalized(x[0][i], of[0], weight[i], bias[i]);
  }
  if (mine) store(op.y + row * channels + c, x[0]);
}

template <class In, class Out>
void norm_rows(int64_t rows, const NormRows<In, Out>& op, const Gpu& gpu) {
  const unsigned threads = threads_of_row(op.channels);
  require((op.weight == nullptr) == (op.bias == nullptr), "a norm has a weight and a bias");
  require_aligned(op.x, op.weight, op.bias, op.y);
  if (rows > 0) launch(norm_each<In, Out>, {unsigned(rows), threads}, gpu, op);
}

// A block walks rows of one sequence, `together` at a time: their sums share barriers, and each mix
// is read once for all of them.
template <class Real, int together, int most_threads>
__global__ void __launch_bounds__(most_threads, most_threads <= 256 ? 2 : 1)
    norm_shift_rows(const __grid_constant__ NormShift<Real> op, int64_t walk, int64_t pieces) {
  __shared__ float place[2][32 * together];
  BlockSums<together> sums{place};
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t sequence = blockIdx.x / pieces, time = op.rows.time;
  const int64_t begin = blockIdx.x % pieces * walk, end = min(time, begin + walk);
  const int64_t first_row = sequence * time;
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
    for (int i = 0; i < octet; ++i) before[i] = normalized(x[0][i], of[0], weight[i], bias[i]);
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
    for (int r = 0; r < together; ++r)
#pragma unroll
      for (int i = 0; i < octet; ++i) u[r][i] = normalized(u[r][i], of[r], weight[i], bias[i]);
    // out = map(p - u, u, channel) for the rows from t on, where `wanted` says at which place
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
        // Of each row from t on, in their order.
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

void embed(const RowBlock& rows, const int32_t* tokens, const float* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  norm_rows<float, float>(rows.rows(), {table, tokens, 0, 1, rows.channels, weight, bias, eps, x},
                          gpu);
}
void embed(const RowBlock& rows, const int32_t* tokens, const bf16* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  norm_rows<bf16, float>(rows.rows(), {table, tokens, 0, 1, rows.channels, weight, bias, eps, x},
                         gpu);
}

template <class Real>
void layer_norm(const RowBlock& rows, const float* x, const float* weight, const float* bias,
                float eps, Real* y, const Gpu& gpu) {
  require(weight && bias, "a layer norm has a weight and a bias");
  norm_rows<float, Real>(rows.rows(), {x, nullptr, 0, 1, rows.channels, weight, bias, eps, y}, gpu);
}

template <class Real>
void norm_shift(const NormShift<Real>& given, const Gpu& gpu) {
  NormShift<Real> op = given;
  const RowBlock& rows = op.rows;
  const unsigned threads = threads_of_row(rows.channels);
  require(op.mixes >= 0 && op.mixes <= most_mixes, "norm_shift has up to six mixes");
  require(op.position >= 0 && op.chunk > 0 && op.chunk + rows.time < int64_t{1} << 31,
          "positions count from 0, and rows of a sequence in 31 bits");
  op.position %= op.chunk;
  require_aligned(op.x, op.weight, op.bias, op.before, op.last, op.mu_tau, op.out_tau, op.away_tau);
  for (int i = 0; i < op.mixes; ++i) require_aligned(op.mu[i], op.out[i]);
  if (rows.rows() == 0) return;
  if (op.mu_tau)
    require(op.chunks == (op.position + rows.time) / op.chunk,
            "norm_shift is told how many chunks end in its rows");
  constexpr int together = 4;
  const int64_t wanted = rows_to_walk(rows.rows(), 1056);
  const int64_t walk = (wanted + together - 1) / together * together;
  const int64_t pieces = (rows.time + walk - 1) / walk;
  // One block may be reading `before` when another has come to the last row: with several, the last
  // rows are normalized again when all are done.
  if (pieces > 1) op.last = nullptr;
  const Grid grid{unsigned(pieces * rows.sequences), threads};
  if (threads <= 256)
    launch(norm_shift_rows<Real, together, 256>, grid, gpu, op, walk, pieces);
  else
    launch(norm_shift_rows<Real, 2, 1024>, grid, gpu, op, walk, pieces);
  if (pieces > 1 && given.last)
    norm_rows<float, float>(rows.sequences,
                            {op.x, nullptr, rows.time - 1, rows.time, rows.channels, op.weight,
                             op.bias, op.eps, given.last},
                            gpu);
}

template void layer_norm(const RowBlock&, const float*, const float*, const float*, float, float*,
                         const Gpu&);
template void layer_norm(const RowBlock&, const float*, const float*, const float*, float, bf16*,
                         const Gpu&);
template void norm_shift(const NormShift<float>&, const Gpu&);
template void norm_shift(const NormShift<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
