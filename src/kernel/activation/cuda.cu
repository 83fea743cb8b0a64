#include "kernel/activation/cuda.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/rows/cuda_elements.cuh"

namespace deltasane::kernel::cuda {
namespace {

struct Tanh {
  __device__ float operator()(float, float x) const { return tanhf(x); }
};
struct Sigmoid {
  __device__ float operator()(float, float x) const { return sigmoid(x); }
};
struct SquaredRelu {
  __device__ float operator()(float, float x) const { return x > 0 ? x * x : 0.0f; }
};
// From y and dy.
struct TanhBackward {
  __device__ float operator()(float y, float dy) const { return dy * (1.0f - y * y); }
};
struct SigmoidBackward {
  __device__ float operator()(float y, float dy) const { return dy * y * (1.0f - y); }
};
struct SquaredReluBackward {
  __device__ float operator()(float y, float dy) const { return dy * 2.0f * sqrtf(y); }
};

}  // namespace

template <class Real>
void activate(Activation activation, Real* x, int64_t count, const Gpu& gpu) {
  const Real* const same = x;
  switch (activation) {
    case Activation::tanh:
      return over_elements(same, x, count, Tanh(), gpu);
    case Activation::sigmoid:
      return over_elements(same, x, count, Sigmoid(), gpu);
    case Activation::squared_relu:
      return over_elements(same, x, count, SquaredRelu(), gpu);
  }
}

template <class Real>
void activate_backward(Activation activation, const Real* y, Real* dy, int64_t count,
                       const Gpu& gpu) {
  switch (activation) {
    case Activation::tanh:
      return over_elements(y, dy, count, TanhBackward(), gpu);
    case Activation::sigmoid:
      return over_elements(y, dy, count, SigmoidBackward(), gpu);
    case Activation::squared_relu:
      return over_elements(y, dy, count, SquaredReluBackward(), gpu);
  }
}

template void activate(Activation, float*, int64_t, const Gpu&);
template void activate(Activation, bf16*, int64_t, const Gpu&);
template void activate_backward(Activation, const float*, float*, int64_t, const Gpu&);
template void activate_backward(Activation, const bf16*, bf16*, int64_t, const Gpu&);

}  // namespace deltasane::kernel::cuda
