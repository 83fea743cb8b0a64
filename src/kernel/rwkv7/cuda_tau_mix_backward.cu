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

// Over the four lanes that have the same channels, whose numbers differ in bits 8 and 16: each
// gets, as x[0], the sums of head own_shared_head().
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
__device__ int own_shared_head() { return int(threadIdx.x) / 8 % heads_shared; }

// A thread of a block: eight channels of four ends.
template <class Real>
struct SliceWork {
  const TauMixGradient<Real>& g;
  TauMixMemory& memory;
  int64_t first_channel = int64_t(blockIdx.x) * columns, first_end = int64_t(blockIdx.y) * slice;
  int thread = int(threadIdx.x), warp = thread / 32;
  int c = thread % (columns / octet) * octet;     // of the block's channels
  int e = thread / (columns / octet) * own_ends;  // of the block's ends
  float x[own_ends][octet] = {}, d[own_ends][octet] = {};

  __device__ bool has(int k) const { return first_end + e + k < g.ends; }
  __device__ int64_t place(int k) const {
    return (first_end + e + k) * g.channels + first_channel + c;
  }
  // dz and W of heads from `from` on, for the block. What is not there is read elsewhere, and not
  // used: all reads are on their way at once.
  __device__ void bring(int from) {
    constexpr int apart = threads / heads_at_once;  // ends, or channels
    const int h = thread % heads_at_once, line = thread / heads_at_once;
    const bool has_head = from + h < g.heads;
    const int64_t head = has_head ? from + h : 0;
    float z[slice / apart], dtau[slice / apart], weight[columns / apart];
#pragma unroll
    for (int i = 0; i < slice / apart; ++i) {
      const int64_t end = min(first_end + line + i * apart, g.ends - 1), at = end * g.heads + head;
      z[i] = g.z[at], dtau[i] = g.dtau[at];
    }
#pragma unroll
    for (int i = 0; i < columns / apart; ++i)
      weight[i] = to_float(g.weight[(first_channel + line + i * apart) * g.heads + head]);
#pragma unroll
    for (int i = 0; i < slice / apart; ++i) {
      const bool there = has_head && first_end + line + i * apart < g.ends;
      const float dz = dtau[i] * (g.alpha / (1.0f + expf(-z[i])));
      memory.dz[h][line + i * apart] = there ? dz : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < columns / apart; ++i)
      memory.weight[h][line + i * apart] = has_head ? weight[i] : 0.0f;
  }
  // Of these heads their part of dx_tau, and of dW what this warp's ends give.
  __device__ void multiply() {
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
      store(&memory.sum[warp][some + own_shared_head()][c], dw[0]);
    }
  }
  // dx_tau; and of mu's gradient what this warp's ends give.
  __device__ void finish_mixes() {
    float dmu[octet] = {};
#pragma unroll
    for (int k = 0; k < own_ends; ++k) {
      if (!has(k)) continue;
      float away[octet];
      load(g.away + place(k), away);
      store(g.dx_tau + place(k), d[k]);
#pragma unroll
      for (int i = 0; i < octet; ++i) dmu[i] = fmaf(d[k][i], away[i], dmu[i]);
    }
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      dmu[i] += __shfl_xor_sync(~0u, dmu[i], 8);
      dmu[i] += __shfl_xor_sync(~0u, dmu[i], 16);
    }
    if (own_shared_head() == 0) store(&memory.sum[warp][0][c], dmu);
  }
  // Leaves the sums of all warps' first `count` lines, as lines of this slice from `line` on.
  __device__ void leave(int64_t line, int count) const {
    float* const to = g.scratch + (blockIdx.y * lines() + line) * g.channels + first_channel;
    for (int i = thread; i < count * columns; i += threads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < warps; ++w) sum += memory.sum[w][i / columns][i % columns];
      to[i / columns * g.channels + i % columns] = sum;
    }
  }
  __device__ int64_t lines() const { return g.heads + 1; }
};

// What blocks leave: (slices, H + 1, C), dW and dmu.
template <class Real>
__global__ void __launch_bounds__(threads, 2)
    tau_mix_backward_slices(const __grid_constant__ TauMixGradient<Real> g) {
  __shared__ TauMixMemory memory;
  SliceWork<Real> work{g, memory};
#pragma unroll
  for (int k = 0; k < own_ends; ++k)
    if (work.has(k)) load(g.x_tau + work.place(k), work.x[k]);
  const int heads = int(g.heads);
  for (int from = 0; from < heads; from += heads_at_once) {
    work.bring(from);
    __syncthreads();
    work.multiply();
    __syncthreads();
    work.leave(from, min(heads - from, heads_at_once));
    __syncthreads();
  }
  work.finish_mixes();
  __syncthreads();
  work.leave(heads, 1);
}

// All of it, added up.
template <class Real>
__global__ void __launch_bounds__(threads)
    add_slices(const __grid_constant__ TauMixGradient<Real> g, int64_t slices) {
  const int64_t all = (g.heads + 1) * g.channels;
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= all) return;
  float sum = 0;
#pragma unroll 8
  for (int64_t s = 0; s < slices; ++s) sum += g.scratch[s * all + i];
  const int64_t head = i / g.channels, channel = i % g.channels;
  (head < g.heads ? g.dweight[channel * g.heads + head] : g.dmu[channel]) += sum;
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
