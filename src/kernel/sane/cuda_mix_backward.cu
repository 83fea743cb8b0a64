// The gradients of tau = alpha softplus(z) + 1 and of z = x_tau W, for the rows that end chunks:
//
//     dz = dtau alpha sigmoid(z)   dx_tau = dz W'
//
// dx_tau is an input of norm_shift_backward (token_shift), dz of tau_weights_backward. A block has
// 64 channels of 128 ends.
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/sane/cuda.h"
#include "kernel/sane/cuda_tau.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;
constexpr int columns = 64;  // channels of a block, eight of a thread
constexpr int own_ends = 4;  // of a thread, consecutive
constexpr int slice = 128;   // ends of a block
constexpr int heads_at_once = 16;
static_assert(threads / (columns / octet) * own_ends == slice);

// Rows are padded against bank conflicts.
struct TauMixMemory {
  alignas(16) float dz[heads_at_once][slice + 4], weight[heads_at_once][columns + 4];
};

// A thread of a block: eight channels of four ends.
template <class Real>
struct TauMixWork {
  const TauMixGradient<Real>& g;
  TauMixMemory& memory;
  int64_t first_channel = int64_t(blockIdx.x) * columns, first_end = int64_t(blockIdx.y) * slice;
  int thread = int(threadIdx.x);
  int c = thread % (columns / octet) * octet;     // of the block's channels
  int e = thread / (columns / octet) * own_ends;  // of the block's ends
  float d[own_ends][octet] = {};

  // dz and W of heads from `from` on, to shared memory. Out of range, another element is loaded and
  // not used: all loads are in flight at once, without branches.
  __device__ void stage(int from) {
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
      const int64_t end = first_end + line + i * apart;
      const float dz = dtau[i] * tau_derivative(z[i], g.alpha);
      memory.dz[h][line + i * apart] = has_head ? dz : 0.0f;
      if (blockIdx.x == 0 && has_head && end < g.ends) g.dz[end * g.heads + head] = dz;
    }
#pragma unroll
    for (int i = 0; i < columns / apart; ++i) memory.weight[h][line + i * apart] = weight[i];
  }
  // Adds these heads' part of dx_tau.
  __device__ void multiply() {
#pragma unroll 4
    for (int h = 0; h < heads_at_once; ++h) {
      float w[octet];
      load(&memory.weight[h][c], w);
      const float4 four = *reinterpret_cast<const float4*>(&memory.dz[h][e]);
      const float dz[own_ends] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int k = 0; k < own_ends; ++k)
#pragma unroll
        for (int i = 0; i < octet; ++i) d[k][i] = fmaf(dz[k], w[i], d[k][i]);
    }
  }
  __device__ void write() const {
#pragma unroll
    for (int k = 0; k < own_ends; ++k) {
      const int64_t end = first_end + e + k;
      if (end < g.ends) store(g.dx_tau + end * g.channels + first_channel + c, d[k]);
    }
  }
};

template <class Real>
__global__ void __launch_bounds__(threads)
    tau_mix_backward_kernel(const __grid_constant__ TauMixGradient<Real> g) {
  __shared__ TauMixMemory memory;
  TauMixWork<Real> work{g, memory};
  for (int from = 0; from < g.heads; from += heads_at_once) {
    if (from > 0) __syncthreads();
    work.stage(from);
    __syncthreads();
    work.multiply();
  }
  work.write();
}

}  // namespace

template <class Real>
void tau_mix_backward(const TauMixGradient<Real>& g, const Gpu& gpu) {
  if (g.ends == 0) return;
  require(g.channels % columns == 0 && g.heads > 0, "channels are those of whole heads");
  require_aligned(g.dx_tau);
  launch(
      tau_mix_backward_kernel<Real>,
      {dim3(unsigned(g.channels / columns), unsigned((g.ends + slice - 1) / slice)), dim3(threads)},
      gpu, g);
}

template void tau_mix_backward(const TauMixGradient<float>&, const Gpu&);
template void tau_mix_backward(const TauMixGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
