// A block per row: one pass for the largest logit and the sum (online softmax), one that writes the
// gradient. Keeping the row in registers between the passes reads it once, and took a fifth longer.
#include "kernel/cross_entropy/cuda.h"

#include <cmath>
#include <type_traits>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 512;
constexpr int in_flight = 4;  // loads of a thread

// Of some logits: the largest, its first index, and the sum of exp(x - largest).
struct Softmax {
  float largest = -INFINITY, sum = 0;
  int top = 0x7fffffff;
};

// bf16 does not need the last bits of the exponential.
template <class Real>
__device__ float exponential(float x) {
  return std::is_same_v<Real, bf16> ? __expf(x) : expf(x);
}

__device__ Softmax merged(const Softmax& a, const Softmax& b) {
  Softmax both;
  both.largest = fmaxf(a.largest, b.largest);
  both.top = a.largest == b.largest ? min(a.top, b.top) : a.largest > b.largest ? a.top : b.top;
  const float of_a = a.largest == both.largest ? a.sum : a.sum * expf(a.largest - both.largest);
  const float of_b = b.largest == both.largest ? b.sum : b.sum * expf(b.largest - both.largest);
  both.sum = of_a + of_b;
  return both;
}

__device__ Softmax merged_over_block(Softmax own) {
  __shared__ Softmax of_warp[threads / 32];
  __shared__ Softmax whole;
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    Softmax other;
    other.largest = __shfl_down_sync(~0u, own.largest, far);
    other.sum = __shfl_down_sync(~0u, own.sum, far);
    other.top = __shfl_down_sync(~0u, own.top, far);
    own = merged(own, other);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < threads / 32; ++i) own = merged(own, of_warp[i]);
    whole = own;
  }
  __syncthreads();
  return whole;
}

// One load of a thread: `width` logits, 8 or 1; the vocabulary is a multiple of it.
template <class Real, int width>
struct Load : Packed<Real> {
  static_assert(width == octet);
  using Packed<Real>::Packed;
};
template <class Real>
struct Load<Real, 1> {
  Real logit;
  Load() = default;
  __device__ explicit Load(const Real* from) : logit(*from) {}
  __device__ void unpack(float (&x)[1]) const { x[0] = to_float(logit); }
};
template <class Real, int width>
__device__ void store_logits(Real* to, const float (&x)[width]) {
  if constexpr (width == octet)
    store(to, x);
  else
    store_one(to, x[0]);
}

// Calls use(first index, logits) for each of this thread's loads of a row.
template <class Real, int width, class Use>
__device__ void each_load(const Real* logits, int count, Use&& use) {
  constexpr int step = threads * width;
  for (int first = int(threadIdx.x) * width; first < count; first += in_flight * step) {
    Load<Real, width> loads[in_flight];
#pragma unroll
    for (int n = 0; n < in_flight; ++n)
      if (first + n * step < count) loads[n] = Load<Real, width>(logits + first + n * step);
#pragma unroll
    for (int n = 0; n < in_flight; ++n)
      if (first + n * step < count) {
        float x[width];
        loads[n].unpack(x);
        use(first + n * step, x);
      }
  }
}

template <class Real, int width>
__global__ void __launch_bounds__(threads)
    cross_entropy_rows(const __grid_constant__ CrossEntropy<Real> op) {
  const int64_t row = blockIdx.x;
  const int count = int(op.vocabulary);
  Real* const logits = op.logits + row * count;
  const float weight = op.weight ? op.weight[row] : 1.0f;
  if (weight == 0) {
    const float zero[width] = {};
    if (op.with_gradient)
      for (int j = int(threadIdx.x) * width; j < count; j += threads * width)
        store_logits(logits + j, zero);
    if (threadIdx.x == 0) op.loss[row] = 0;
    return;
  }
  Softmax own;
  each_load<Real, width>(logits, count, [&](int first, const float(&x)[width]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < width; ++i) largest = fmaxf(largest, x[i]);
    if (largest > own.largest) {  // seldom
      own.sum *= exponential<Real>(own.largest - largest);
      own.largest = largest;
#pragma unroll
      for (int i = width - 1; i >= 0; --i)
        if (x[i] == largest) own.top = first + i;
    }
    const float from = own.largest == -INFINITY ? 0.0f : own.largest;
#pragma unroll
    for (int i = 0; i < width; ++i) own.sum += exponential<Real>(x[i] - from);
  });
  const Softmax whole = merged_over_block(own);
  const int32_t target = op.target[row];
  const float wanted = to_float(logits[target]);
  if (threadIdx.x == 0)
    op.loss[row] =
        double(weight) * (log(double(whole.sum)) + double(whole.largest) - double(wanted));
  if (!op.with_gradient) return;
  __syncthreads();  // all threads have read the target's logit
  const float factor = weight / whole.sum;
  const auto gradient = [&](float logit) {
    return factor * exponential<Real>(logit - whole.largest);
  };
  each_load<Real, width>(logits, count, [&](int first, const float(&x)[width]) {
    float y[width];
#pragma unroll
    for (int i = 0; i < width; ++i) y[i] = gradient(x[i]);
    store_logits(logits + first, y);
  });
  // The target and the largest logit have further terms, added by the thread that wrote them.
  const auto rewrite = [&](int at, float logit) {
    if (at >= count || at / width % threads != int(threadIdx.x)) return;
    float x = gradient(logit);
    if (at == target) x -= weight;
    if (at == whole.top) x += weight * op.wrap * whole.largest;
    store_one(logits + at, x);
  };
  rewrite(target, wanted);
  rewrite(whole.top, whole.largest);
}

}  // namespace

template <class Real>
void cross_entropy(const CrossEntropy<Real>& op, const Gpu& gpu) {
  require(op.vocabulary > 0 && op.vocabulary < int64_t{1} << 30, "a row has logits");
  if (op.rows == 0) return;
  const bool whole = op.vocabulary % octet == 0 && reinterpret_cast<uintptr_t>(op.logits) % 16 == 0;
  const Grid grid{unsigned(op.rows), threads};
  if (whole)
    launch(cross_entropy_rows<Real, octet>, grid, gpu, op);
  else
    launch(cross_entropy_rows<Real, 1>, grid, gpu, op);
}

template void cross_entropy(const CrossEntropy<float>&, const Gpu&);
template void cross_entropy(const CrossEntropy<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
