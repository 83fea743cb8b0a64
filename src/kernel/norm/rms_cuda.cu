#include "kernel/norm/rms_cuda.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int block_warps = channel_threads / 32;
constexpr int64_t long_head = 512;  // channels from which a block has a head, and not a warp

// The threads that have one head.
template <int warps>
struct HeadThreads {
  int64_t head;  // of all
  int lane;
  __device__ HeadThreads()
      : head(int64_t(blockIdx.x) * (block_warps / warps) + threadIdx.x / (32 * warps)),
        lane(int(threadIdx.x) % (32 * warps)) {}
  template <int width, class Use>
  __device__ void each(int64_t size, Use&& use) const {
    for (int64_t c = int64_t(lane) * width; c < size; c += 32 * warps * width) use(c);
  }
  template <int width, class Real>
  __device__ float sum_of_squares(const Real* x, int64_t size) const {
    float sum[1] = {};
    each<width>(size, [&](int64_t c) {
      float some[width];
      load_channels<width>(x + c, some);
#pragma unroll
      for (int i = 0; i < width; ++i) sum[0] = fmaf(some[i], some[i], sum[0]);
    });
    if constexpr (warps == 1) {
      return warp_sum(sum[0]);
    } else {
      __shared__ float place[2][32];
      BlockSums<1> sums{place};
      sums(sum);
      return sum[0];
    }
  }
};

template <int width, int warps, class In, class Out>
__global__ void __launch_bounds__(channel_threads)
    rms_heads(const __grid_constant__ RmsNorm<In, Out> op) {
  const HeadThreads<warps> threads;
  if (threads.head >= op.rows * op.heads) return;
  const int64_t row = threads.head / op.heads, at = threads.head % op.heads * op.size;
  const In* const x = op.x + row * op.x_step + at;
  Out* const y = op.y + row * op.y_step + at;
  const float squares = threads.template sum_of_squares<width>(x, op.size);
  const float scale = 1.0f / sqrtf(squares / float(op.size) + op.eps);
  threads.template each<width>(op.size, [&](int64_t c) {
    float value[width], weight[width];
    load_channels<width>(x + c, value);
    load_channels<width>(op.weight + c, weight);
#pragma unroll
    for (int i = 0; i < width; ++i) value[i] *= scale * weight[i];
    if (op.gate) {
      float gate[width], bias[width] = {};
      load_channels<width>(op.gate + row * op.gate_step + at + c, gate);
      if (op.gate_bias) load_channels<width>(op.gate_bias + at + c, bias);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const float g = gate[i] + bias[i], s = sigmoid(g);
        value[i] *= op.activation == GateActivation::silu ? g * s : s;
      }
    }
    if (op.add) {
      float before[width];
      load_channels<width>(y + c, before);
#pragma unroll
      for (int i = 0; i < width; ++i) value[i] += before[i];
    }
    store_channels<width>(y + c, value);
  });
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads) l2_heads(const __grid_constant__ L2Norms<Real> op) {
  const HeadThreads<1> threads;
  const int64_t of_one = op.rows * op.heads;
  if (threads.head >= 2 * of_one) return;
  const int which = threads.head >= of_one;
  Real* const x = op.x[which] + (threads.head - which * of_one) * op.size;
  const float squares = threads.template sum_of_squares<width>(x, op.size);
  const float factor = op.scale[which] / sqrtf(squares + op.eps);
  threads.template each<width>(op.size, [&](int64_t c) {
    float value[width];
    load_channels<width>(x + c, value);
#pragma unroll
    for (int i = 0; i < width; ++i) value[i] *= factor;
    store_channels<width>(x + c, value);
  });
}

}  // namespace

template <class In, class Out>
void rms_norm(const RmsNorm<In, Out>& op, const Gpu& gpu) {
  const int64_t all = op.rows * op.heads;
  if (all == 0) return;
  const bool eight = in_eights({op.size, op.x_step, op.y_step, op.gate_step},
                               {op.x, op.weight, op.y, op.gate, op.gate_bias});
  with_width(eight, [&]<int width>() {
    if (op.size >= long_head)
      launch(rms_heads<width, block_warps, In, Out>, {unsigned(all), channel_threads}, gpu, op);
    else
      launch(rms_heads<width, 1, In, Out>,
             {unsigned((all + block_warps - 1) / block_warps), channel_threads}, gpu, op);
  });
}

template <class Real>
void l2_norms(const L2Norms<Real>& op, const Gpu& gpu) {
  const int64_t all = 2 * op.rows * op.heads;
  if (all == 0) return;
  with_width(in_eights({op.size}, {op.x[0], op.x[1]}), [&]<int width>() {
    launch(l2_heads<width, Real>,
           {unsigned((all + block_warps - 1) / block_warps), channel_threads}, gpu, op);
  });
}

template void rms_norm(const RmsNorm<float, float>&, const Gpu&);
template void rms_norm(const RmsNorm<float, bf16>&, const Gpu&);
template void rms_norm(const RmsNorm<bf16, bf16>&, const Gpu&);
template void rms_norm(const RmsNorm<bf16, float>&, const Gpu&);
template void l2_norms(const L2Norms<float>&, const Gpu&);
template void l2_norms(const L2Norms<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
