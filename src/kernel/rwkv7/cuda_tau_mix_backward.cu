// The gradients of tau = alpha softplus(z) + 1, of z = x_tau W and of the mix x_tau = u + away
// mu_tau, for the rows that end chunks:
//
//     dz = dtau alpha sigmoid(z)   dx_tau = dz W'   dW += x_tau' dz   dmu_tau += dx_tau away
//
// From dx_tau on it goes with the other mixes (cuda_norm_backward.cu). These are products of so few
// columns that a kernel for each would mostly start and end. A block has 64 channels of 128 ends,
// and leaves its part of the sums over ends; a second kernel adds those up in their order.
#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32;
constexpr int columns = 64;  // channels of a block, eight of a thread
constexpr int own_ends = 4;  // of a thread, one after the other
constexpr int slice = 128;   // ends of a block
constexpr int heads_at_once = 16;
constexpr int heads_shared = 4;  // whose sums over ends a warp's threads share out
static_assert(threads / (columns / octet) * own_ends == slice);

// Rows are a little longer than they need be, so that fewer of a column share a bank.
struct TauMixMemory {
  alignas(16) float dz[heads_at_once][slice + 4], weight[heads_at_once][columns + 4];
  alignas(16) float sum[warps][heads_at_once][columns];
};

// Of numbers that the lanes have whose number differs in bits 8 and 16: those of one head stay.
__device__ void share_heads(float (&x)[heads_shared][octet]) {
  const bool upper = threadIdx.x & 16, odd = threadIdx.x & 8;
#pragma unroll
  for (int i = 0; i < octet; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float kept = upper ? x[h + 2][i] : x[h][i], given = upper ? x[h][i] : x[h + 2][i];
      x[h][i] = kept + __shfl_xor_sync(~0u, given, 16);
    }
    const float kept = odd ? x[1][i] : x[0][i], given = odd ? x[0][i] : x[1][i];
    x[0][i] = kept + __shfl_xor_sync(~0u, given, 8);
  }
}

template <class Real>
__global__ void __launch_bounds__(threads, 2)
    tau_mix_backward_slices(const __grid_constant__ TauMixGradient<Real> g) {
  __shared__ TauMixMemory memory;
  const int thread = int(threadIdx.x), warp = thread / 32;
  const int c = thread % (columns / octet) * octet;     // of the block's channels
  const int e = thread / (columns / octet) * own_ends;  // of the block's ends
  const int64_t channel = int64_t(blockIdx.x) * columns, first = int64_t(blockIdx.y) * slice;
  const int heads = int(g.heads);
  float* const left = g.scratch + blockIdx.y * (g.channels * (g.heads + 1));
  const auto row = [&](int k) { return (first + e + k) * g.channels + channel + c; };
  const auto has = [&](int k) { return first + e + k < g.ends; };

  float x[own_ends][octet] = {}, d[own_ends][octet] = {};
#pragma unroll
  for (int k = 0; k < own_ends; ++k)
    if (has(k)) load(g.x_tau + row(k), x[k]);
  for (int from = 0; from < heads; from += heads_at_once) {
    for (int i = thread; i < slice * heads_at_once; i += threads) {
      const int head = from + i % heads_at_once;
      const int64_t end = first + i / heads_at_once, at = end * heads + head;
      memory.dz[i % heads_at_once][i / heads_at_once] =
          end < g.ends && head < heads ? g.dtau[at] * (g.alpha / (1.0f + expf(-g.z[at]))) : 0.0f;
    }
    for (int i = thread; i < columns * heads_at_once; i += threads) {
      const int head = from + i % heads_at_once, column = i / heads_at_once;
      memory.weight[i % heads_at_once][column] =
          head < heads ? to_float(g.weight[(channel + column) * heads + head]) : 0.0f;
    }
    __syncthreads();
    for (int some = 0; some < heads_at_once; some += heads_shared) {
      float dw[heads_shared][octet] = {};
#pragma unroll
      for (int h = 0; h < heads_shared; ++h) {
        float w[octet];
        load(&memory.weight[some + h][c], w);
        const float4 four = *reinterpret_cast<const float4*>(&memory.dz[some + h][e]);
        const float dz[own_ends] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < own_ends; ++k)
#pragma unroll
          for (int i = 0; i < octet; ++i) {
            d[k][i] = fmaf(dz[k], w[i], d[k][i]);
            dw[h][i] = fmaf(x[k][i], dz[k], dw[h][i]);
          }
      }
      share_heads(dw);
      store(&memory.sum[warp][some + thread % 32 / 8 % 2 + thread % 32 / 16 * 2][c], dw[0]);
    }
    __syncthreads();
    for (int i = thread; i < columns * heads_at_once; i += threads) {
      const int h = i % heads_at_once, column = i / heads_at_once;
      float sum = 0;
#pragma unroll
      for (int w = 0; w < warps; ++w) sum += memory.sum[w][h][column];
      if (from + h < heads) left[(channel + column) * heads + from + h] = sum;
    }
    __syncthreads();
  }

  float dmu[octet] = {};
#pragma unroll
  for (int k = 0; k < own_ends; ++k) {
    if (!has(k)) continue;
    float away[octet];
    load(g.away + row(k), away);
    store(g.dx_tau + row(k), d[k]);
#pragma unroll
    for (int i = 0; i < octet; ++i) dmu[i] = fmaf(d[k][i], away[i], dmu[i]);
  }
#pragma unroll
  for (int i = 0; i < octet; ++i) {
    dmu[i] += __shfl_xor_sync(~0u, dmu[i], 8);
    dmu[i] += __shfl_xor_sync(~0u, dmu[i], 16);
  }
  if (thread % 32 < 8) store(&memory.sum[warp][0][c], dmu);
  __syncthreads();
  if (thread >= columns) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < warps; ++w) sum += memory.sum[w][0][thread];
  left[g.channels * g.heads + channel + thread] = sum;
}

// What blocks left, added up.
template <class Real>
__global__ void __launch_bounds__(threads)
    add_slices(const __grid_constant__ TauMixGradient<Real> g, int64_t slices) {
  const int64_t of_weight = g.channels * g.heads, all = of_weight + g.channels;
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= all) return;
  float sum = 0;
#pragma unroll 8
  for (int64_t s = 0; s < slices; ++s) sum += g.scratch[s * all + i];
  (i < of_weight ? g.dweight[i] : g.dmu[i - of_weight]) += sum;
}

int64_t slices_of(int64_t ends) { return (ends + slice - 1) / slice; }

}  // namespace

int64_t tau_mix_scratch(int64_t ends, int64_t channels, int64_t heads) {
  return slices_of(ends) * channels * (heads + 1);
}

template <class Real>
void tau_mix_backward(const TauMixGradient<Real>& g, const Gpu& gpu) {
  if (g.ends == 0) return;
  require(g.channels % columns == 0 && g.heads > 0, "channels are those of whole heads");
  require_aligned(g.x_tau, g.away, g.dx_tau);
  const int64_t slices = slices_of(g.ends), sums = g.channels * (g.heads + 1);
  launch(tau_mix_backward_slices<Real>,
         {dim3(unsigned(g.channels / columns), unsigned(slices)), threads}, gpu, g);
  launch(add_slices<Real>, {unsigned((sums + threads - 1) / threads), threads}, gpu, g, slices);
}

template void tau_mix_backward(const TauMixGradient<float>&, const Gpu&);
template void tau_mix_backward(const TauMixGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
