// The gradients of W and of mu_tau, where z = x_tau W and x_tau = u + away mu_tau (x_tau, dz and
// away of the rows that end chunks):
//
//     dW += x_tau' dz   dmu_tau += sum_h W_h (away' dz_h), over heads
//
// These are sums over all ends, of few heads: for one layer a kernel would be bound by latency, so
// it is for several layers. A block has 64 channels of one; half of its warps multiply x_tau, the
// others away, each by 16 ends at a time, on the tensor cores, with dz split exactly into three
// bf16 numbers (delta_rule/cuda_split.cuh).
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/cuda/fragment.cuh"
#include "kernel/sane/cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 8;  // on the same matrix
constexpr int threads = 2 * 32 * warps;
constexpr int columns = 64;                     // channels of a block
constexpr int ends_at_once = 16, own_ends = 4;  // of a product, and of a thread in it
constexpr int heads_at_once = 16, own_heads = 2;
constexpr int planes = exact_planes<float>;

// A thread's operands of 16 ends, for products of dz' (heads, ends) and rows (ends, channels).
// Which channel is which column of a product is free: column n of product i is channel 8 n + i, so
// that a thread has eight contiguous channels.
template <class Real>
struct TauEnds {
  Packed<Real> row[own_ends];
  float dz[own_heads][own_ends];
};

// dz' as fragments A, all planes.
struct DzFragment {
  uint32_t plane[planes][4];
  __device__ explicit DzFragment(const float (&dz)[own_heads][own_ends]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float first = dz[i % 2][i / 2 * 2], second = dz[i % 2][i / 2 * 2 + 1];
#pragma unroll
      for (int p = 0; p < planes; ++p) plane[p][i] = split_off(first, second);
    }
  }
};

// Accumulators: four of each of a thread's eight channels.
struct TauSums {
  float x[octet][4] = {};

  // The tensor cores truncate sums: 16 ends are summed from 0, and added with rounding.
  template <class Real>
  __device__ void add(const DzFragment& dz, const Packed<Real> (&rows)[own_ends]) {
    float row[own_ends][octet];
#pragma unroll
    for (int k = 0; k < own_ends; ++k) rows[k].unpack(row[k]);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      float sum[4] = {};
#pragma unroll
      for (int p = 0; p < exact_planes<Real>; ++p) {
        const uint32_t low = split_off(row[0][i], row[1][i]),
                       high = split_off(row[2][i], row[3][i]);
#pragma unroll
        for (int q = 0; q < planes - p; ++q) mma(sum, dz.plane[q], low, high);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) x[i][k] += sum[k];
    }
  }
};

struct TauWeightsMemory {
  float of_warp[warps][heads_at_once][columns];
};

template <class Real>
struct TauWeightsWork {
  const TauWeightsGradient<Real>& g;
  const typename TauWeightsGradient<Real>::Layer& layer;
  TauWeightsMemory& memory;
  int64_t first_channel = int64_t(blockIdx.x) * columns;
  int thread = int(threadIdx.x), warp = thread / 32 % warps;
  bool has_away = thread / 32 >= warps;
  int line = thread % 32 / 4, pair = thread % 4;  // head and column; two ends, and two more
  float dmu = 0;                                  // of channel thread % columns, some heads' part

  // Loads the ends from `from` on, for heads from `head` on. Out of range, another element is
  // loaded, and its dz is 0.
  __device__ void load_ends(TauEnds<Real>& next, int64_t from, int64_t head) const {
    const Real* const rows = has_away ? layer.away : layer.x_tau;
#pragma unroll
    for (int k = 0; k < own_ends; ++k) {
      const int64_t end = from + 2 * pair + k / 2 * 8 + k % 2, there = min(end, g.ends - 1);
      next.row[k] = Packed<Real>(rows + there * g.channels + first_channel + line * octet);
#pragma unroll
      for (int i = 0; i < own_heads; ++i) {
        const int64_t h = head + line + 8 * i;
        const float dz = layer.dz[there * g.heads + min(h, g.heads - 1)];
        next.dz[i][k] = end < g.ends && h < g.heads ? dz : 0.0f;
      }
    }
  }
  // Sums this warp's ends, for heads from `head` on, with the next loads in flight.
  __device__ void add_up(int64_t head, TauSums& sums) const {
    TauEnds<Real> next;
    int64_t from = warp * ends_at_once;
    load_ends(next, from, head);
    for (; from < g.ends; from += warps * ends_at_once) {
      const TauEnds<Real> here = next;
      load_ends(next, from + warps * ends_at_once, head);
      __syncwarp();  // otherwise the compiler moves the loads behind the products
      sums.add(DzFragment(here.dz), here.row);
    }
  }
  // each(index in W, sum) for this thread's channel and every eighth head: the sum over the warps
  // of one matrix or the other.
  template <class Each>
  __device__ void each_sum(bool of_away, const TauSums& sums, int64_t head, Each&& each) {
    __syncthreads();  // all reads of the previous contents are done
    if (has_away == of_away)
#pragma unroll
      for (int i = 0; i < octet; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          memory.of_warp[warp][line + k / 2 * 8][(2 * pair + k % 2) * octet + i] = sums.x[i][k];
    __syncthreads();
    const int channel = thread % columns;
    for (int h = thread / columns; h < heads_at_once && head + h < g.heads;
         h += threads / columns) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < warps; ++w) sum += memory.of_warp[w][h][channel];
      each((first_channel + channel) * g.heads + head + h, sum);
    }
  }
  __device__ void add_heads(int64_t head) {
    TauSums sums;
    add_up(head, sums);
    each_sum(false, sums, head, [&](int64_t at, float sum) { layer.dweight[at] += sum; });
    each_sum(true, sums, head,
             [&](int64_t at, float sum) { dmu = fmaf(to_float(layer.weight[at]), sum, dmu); });
  }
  __device__ void store_dmu() {
    float* const parts = memory.of_warp[0][0];
    __syncthreads();
    parts[thread] = dmu;
    __syncthreads();
    if (thread >= columns) return;
    float sum = 0;
    for (int i = thread; i < threads; i += columns) sum += parts[i];
    layer.dmu[first_channel + thread] += sum;
  }
};

template <class Real>
__global__ void __launch_bounds__(threads, 1)
    tau_weights_backward_kernel(const __grid_constant__ TauWeightsGradient<Real> g) {
  __shared__ TauWeightsMemory memory;
  TauWeightsWork<Real> work{g, g.layer[blockIdx.y], memory};
  for (int64_t head = 0; head < g.heads; head += heads_at_once) work.add_heads(head);
  work.store_dmu();
}

}  // namespace

template <class Real>
void tau_weights_backward(const TauWeightsGradient<Real>& g, const Gpu& gpu) {
  if (g.ends == 0 || g.layers == 0) return;
  require(g.channels % columns == 0 && g.heads > 0, "channels are those of whole heads");
  for (int i = 0; i < g.layers; ++i) require_aligned(g.layer[i].x_tau, g.layer[i].away);
  launch(tau_weights_backward_kernel<Real>,
         {dim3(unsigned(g.channels / columns), unsigned(g.layers)), dim3(threads)}, gpu, g);
}

template void tau_weights_backward(const TauWeightsGradient<float>&, const Gpu&);
template void tau_weights_backward(const TauWeightsGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
