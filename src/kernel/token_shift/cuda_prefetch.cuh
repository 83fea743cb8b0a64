// What norm_shift_backward reads: rows, prefetched into shared memory in a pipeline of cp.async
// stages, and the mixes' mu. Every thread copies and reads its own eight channels, so that no
// barrier is needed. For cuda_backward.cu.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/token_shift/cuda.h"

namespace deltasane::kernel::cuda {

// The stage of row t has every dout and dx of it, and x of row t - 2, the first row that was not
// loaded before. Without stages everything is loaded where it is used.
template <class Real, int mixes>
struct RowPipeline {
  static constexpr int of_dout = int(octet * sizeof(Real) / sizeof(uint4));  // units of 16 bytes
  static constexpr int of_floats = int(octet * sizeof(float) / sizeof(uint4));
  static constexpr int x_unit = mixes * of_dout, dx_unit = x_unit + of_floats;
  static constexpr int units = dx_unit + of_floats;  // of a thread's channels

  const NormShiftGradient<Real>& g;
  uint4* memory;
  int stages;
  bool mine;
  int slot = 0;  // stage of the current row

  __device__ uint4* at(int which, int unit) const {
    return memory + (which * units + unit) * int(blockDim.x) + int(threadIdx.x);
  }
  __device__ uint4* end() const { return at(stages, 0) - int(threadIdx.x); }
  // place: of this thread's first channel in row t.
  __device__ void prefetch(int which, int64_t t, int64_t place) const {
    if (mine && t >= 0) {
#pragma unroll
      for (int m = 0; m < mixes; ++m) copy<of_dout>(at(which, m * of_dout), g.dout[m] + place);
      if (t > 1) copy<of_floats>(at(which, x_unit), g.op.x + place - 2 * g.op.rows.channels);
      copy<of_floats>(at(which, dx_unit), g.dx + place);
    }
    commit_group();
  }
  template <int count, class Number>
  __device__ static void copy(uint4* to, const Number* from) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      copy_async(to + i * int(blockDim.x), reinterpret_cast<const uint4*>(from) + i);
  }

  // Fills the pipeline, t being the last row. Rows before `first` are not prefetched.
  __device__ void begin(int64_t t, int64_t first, int64_t place) const {
    for (int i = 0; i + 1 < stages; ++i)
      prefetch(i, t - i >= first ? t - i : -1, place - i * g.op.rows.channels);
  }
  // Waits for row t, and prefetches a row into the stage that row t + 1 had.
  __device__ void wait_for(int64_t t, int64_t first, int64_t place) const {
    if (stages == 0) return;
    const int ahead = stages - 1;
    prefetch(slot == 0 ? ahead : slot - 1, t - ahead >= first ? t - ahead : -1,
             place - ahead * g.op.rows.channels);
    if (stages == 3)
      wait_group<2>();
    else if (stages == 2)
      wait_group<1>();
    else
      wait_group<0>();
  }
  __device__ void release() { slot = slot + 1 < stages ? slot + 1 : 0; }

  __device__ Packed<Real> dout(int m, int64_t place) const {
    Packed<Real> packed;
    if (mine) get(packed, m * of_dout, g.dout[m] + place);
    return packed;
  }
  __device__ void two_before(int64_t place, float (&x)[octet]) const {
    floats(x_unit, g.op.x + place - 2 * g.op.rows.channels, x);
  }
  __device__ void dx(int64_t place, float (&x)[octet]) const { floats(dx_unit, g.dx + place, x); }

  __device__ void floats(int unit, const float* from, float (&x)[octet]) const {
    Packed<float> packed;
    if (mine) get(packed, unit, from);
    packed.unpack(x);
  }
  template <class Number>
  __device__ void get(Packed<Number>& packed, int unit, const Number* from) const {
    if (stages == 0)
      packed = Packed<Number>(from);
    else
      take(packed, at(slot, unit));
  }
  __device__ static void take(Packed<bf16>& packed, const uint4* from) { packed.bits = *from; }
  __device__ static void take(Packed<float>& packed, const uint4* from) {
    packed.low = *reinterpret_cast<const float4*>(from);
    packed.high = *reinterpret_cast<const float4*>(from + blockDim.x);
  }
};

// mu of every mix, this thread's channels: a single one in registers, more in shared memory, which
// is faster than the caches; without pipeline stages they are loaded where they are used.
template <int mixes>
struct OwnMus {
  static constexpr int units = mixes == 1 ? 0 : 2 * mixes;
  const float* const (&mu)[most_mixes];
  float4* memory;
  bool in_shared, mine;
  Packed<float> only;

  __device__ OwnMus(const float* const (&all)[most_mixes], uint4* shared, bool staged, bool own)
      : mu(all),
        memory(reinterpret_cast<float4*>(shared) + threadIdx.x),
        in_shared(staged && mixes > 1),
        mine(own) {
    if constexpr (mixes == 1) only = loaded(0);
    if (!in_shared) return;
#pragma unroll
    for (int m = 0; m < mixes; ++m) {
      const Packed<float> one = loaded(m);
      memory[2 * m * blockDim.x] = one.low, memory[(2 * m + 1) * blockDim.x] = one.high;
    }
  }
  __device__ Packed<float> loaded(int m) const {
    return mine ? Packed<float>(mu[m] + threadIdx.x * octet) : Packed<float>();
  }
  __device__ void get(int m, float (&to)[octet]) const {
    Packed<float> one = only;
    if (in_shared)
      one.low = memory[2 * m * blockDim.x], one.high = memory[(2 * m + 1) * blockDim.x];
    else if constexpr (mixes > 1)
      one = loaded(m);
    one.unpack(to);
  }
};

}  // namespace deltasane::kernel::cuda
