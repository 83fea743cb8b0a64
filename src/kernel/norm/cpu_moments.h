// Mean and 1 / sqrt(variance + eps) of a row or of a head, and the gradient through both, for files
// compiled per instruction set. In an unnamed namespace, as in simd.h and for its reason.
#pragma once

#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {
namespace {

template <int lanes>
float sum_of(const float* x, int64_t count) {
  using V = Simd<lanes>;
  typename V::Vec sum = {};
  each_vector<lanes>(count, [&](int64_t c, int some) { sum += V::load_some(x + c, some); });
  return V::sum(sum);
}

// sum of (x - mean)^2
template <int lanes>
float squares_about(const float* x, float mean, int64_t count) {
  using V = Simd<lanes>;
  typename V::Vec sum = {};
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto d = V::load_some(x + c, some) - mean;
    sum += some == lanes ? d * d : V::first(d * d, some);
  });
  return V::sum(sum);
}

// xhat = (x - mean) scale
struct Moments {
  float mean, scale;
};

template <int lanes>
Moments moments_of(const float* x, float eps, int64_t count) {
  const float mean = sum_of<lanes>(x, count) / float(count);
  const float variance = squares_about<lanes>(x, mean, count) / float(count);
  return {mean, 1.0f / __builtin_sqrtf(variance + eps)};
}

// dx = scale (dxhat - mean(dxhat) - xhat mean(dxhat xhat)), dxhat = dy weight, passed to
// store(c, some, dx).
template <int lanes, class Store>
[[gnu::always_inline]] inline void norm_dx(const float* x, const float* weight, const Moments& m,
                                           const float* dy, int64_t count, Store store) {
  using V = Simd<lanes>;
  typename V::Vec sum = {}, along = {};
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto dxhat = V::load_some(dy + c, some) * V::load_some(weight + c, some);
    sum += dxhat;  // lanes past the end are 0 here and below
    along += dxhat * ((V::load_some(x + c, some) - m.mean) * m.scale);
  });
  const float mean = V::sum(sum) / float(count), share = V::sum(along) / float(count);
  each_vector<lanes>(count, [&](int64_t c, int some) {
    const auto dxhat = V::load_some(dy + c, some) * V::load_some(weight + c, some);
    const auto xhat = (V::load_some(x + c, some) - m.mean) * m.scale;
    store(c, some, m.scale * (dxhat - mean - xhat * share));
  });
}

}  // namespace
}  // namespace deltasane::kernel::cpu
