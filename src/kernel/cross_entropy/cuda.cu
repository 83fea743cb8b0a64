// A block has a row: one walk for the largest logit and the sum, one that writes the gradient. Rows
// that stay in a block's registers while the next one comes are read once, and took a fifth longer.
#include "kernel/cross_entropy/cuda.h"

#include <cmath>
#include <type_traits>

#include "kernel/cuda_lanes.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 512;
constexpr int at_once = 4;  // pieces of a row that a thread asks for before it uses the first

// The largest of some logits, the first place that has it, and the sum of exp(x - largest).
struct Share {
  float largest = -INFINITY, sum = 0;
  int top = 0x7fffffff;
};

// Sixteen bits do not see the last bits of the exponential.
template <class Real>
__device__ float exponential(float x) {
  return std::is_same_v<Real, bf16> ? __expf(x) : expf(x);
}

__device__ Share joined(const Share& a, const Share& b) {
  Share both;
  both.largest = fmaxf(a.largest, b.largest);
  both.top = a.largest == b.largest ? min(a.top, b.top) : a.largest > b.largest ? a.top : b.top;
  const float of_a = a.largest == both.largest ? a.sum : a.sum * expf(a.largest - both.largest);
  const float of_b = b.largest == both.largest ? b.sum : b.sum * expf(b.largest - both.largest);
  both.sum = of_a + of_b;
  return both;
}

__device__ Share joined_over_block(Share share) {
  __shared__ Share of_warp[threads / 32];
  __shared__ Share whole;
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    Share other;
    other.largest = __shfl_down_sync(~0u, share.largest, far);
    other.sum = __shfl_down_sync(~0u, share.sum, far);
    other.top = __shfl_down_sync(~0u, share.top, far);
    share = joined(share, other);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = share;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < threads / 32; ++i) share = joined(share, of_warp[i]);
    whole = share;
  }
  __syncthreads();
  return whole;
}

// Logits that a thread takes at a time, `width` of them: 8 or 1; the vocabulary is a multiple of
// it.
template <class Real, int width>
struct Piece : Packed<Real> {
  static_assert(width == octet);
  using Packed<Real>::Packed;
};
template <class Real>
struct Piece<Real, 1> {
  Real logit;
  Piece() = default;
  __device__ explicit Piece(const Real* from) : logit(*from) {}
  __device__ void unpack(float (&x)[1]) const { x[0] = to_float(logit); }
};
template <class Real, int width>
__device__ void give(Real* to, const float (&x)[width]) {
  if constexpr (width == octet)
    store(to, x);
  else
    put(to, x[0]);
}

// Calls use(first place, logits) for each piece of a row that this thread has.
template <class Real, int width, class Use>
__device__ void each_piece(const Real* logits, int count, Use&& use) {
  constexpr int step = threads * width;
  for (int first = int(threadIdx.x) * width; first < count; first += at_once * step) {
    Piece<Real, width> pieces[at_once];
#pragma unroll
    for (int n = 0; n < at_once; ++n)
      if (first + n * step < count) pieces[n] = Piece<Real, width>(logits + first + n * step);
#pragma unroll
    for (int n = 0; n < at_once; ++n)
      if (first + n * step < count) {
        float x[width];
        pieces[n].unpack(x);
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
        give(logits + j, zero);
    if (threadIdx.x == 0) op.loss[row] = 0;
    return;
  }
  Share share;
  each_piece<Real, width>(logits, count, [&](int first, const float(&x)[width]) {
    float largest = x[0];
#pragma unroll
    for (int i = 1; i < width; ++i) largest = fmaxf(largest, x[i]);
    if (largest > share.largest) {  // seldom
      share.sum *= exponential<Real>(share.largest - largest);
      share.largest = largest;
#pragma unroll
      for (int i = width - 1; i >= 0; --i)
        if (x[i] == largest) share.top = first + i;
    }
    const float from = share.largest == -INFINITY ? 0.0f : share.largest;
#pragma unroll
    for (int i = 0; i < width; ++i) share.sum += exponential<Real>(x[i] - from);
  });
  const Share whole = joined_over_block(share);
  const int32_t target = op.target[row];
  const float wanted = to_float(logits[target]);
  if (threadIdx.x == 0)
    op.loss[row] =
        double(weight) * (log(double(whole.sum)) + double(whole.largest) - double(wanted));
  if (!op.with_gradient) return;
  __syncthreads();  // the target's logit has been read
  const float factor = weight / whole.sum;
  const auto gradient = [&](float logit) {
    return factor * exponential<Real>(logit - whole.largest);
  };
  each_piece<Real, width>(logits, count, [&](int first, const float(&x)[width]) {
    float y[width];
#pragma unroll
    for (int i = 0; i < width; ++i) y[i] = gradient(x[i]);
    give(logits + first, y);
  });
  // Two places have more, and get it from the thread that wrote them.
  const auto write_again = [&](int place, float logit) {
    if (place >= count || place / width % threads != int(threadIdx.x)) return;
    float x = gradient(logit);
    if (place == target) x -= weight;
    if (place == whole.top) x += weight * op.wrap * whole.largest;
    put(logits + place, x);
  };
  write_again(target, wanted);
  write_again(whole.top, whole.largest);
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
