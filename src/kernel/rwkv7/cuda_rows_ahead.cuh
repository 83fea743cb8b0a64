// What a walk over rows on the way back of norm_shift reads: rows to come, which are on their way
// into shared memory, and the mixes' mu. Every thread has its own eight channels of each, and waits
// for no other. For cuda_norm_backward.cu.
#pragma once

#include "kernel/cuda_async.cuh"
#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda.h"

namespace deltasane::kernel::cuda {

// Rows on their way: of row t every dout and dx, and x of the row two before it, which is the first
// that the walk has not seen then. With no stages they are read where they are used.
template <class Real, int mixes>
struct RowsAhead {
  static constexpr int of_dout = int(octet * sizeof(Real) / sizeof(uint4));  // units of 16 bytes
  static constexpr int of_floats = int(octet * sizeof(float) / sizeof(uint4));
  static constexpr int x_unit = mixes * of_dout, dx_unit = x_unit + of_floats;
  static constexpr int units = dx_unit + of_floats;  // of a thread's channels

  const NormShiftGradient<Real>& g;
  uint4* memory;
  int stages;
  bool mine;
  int slot = 0;  // of the row that is walked

  __device__ uint4* at(int which, int unit) const {
    return memory + (which * units + unit) * int(blockDim.x) + int(threadIdx.x);
  }
  __device__ uint4* behind() const { return at(stages, 0) - int(threadIdx.x); }
  // place: of this thread's first channel in row t.
  __device__ void ask_for(int which, int64_t t, int64_t place) const {
    if (mine && t >= 0) {
#pragma unroll
      for (int m = 0; m < mixes; ++m) copy<of_dout>(at(which, m * of_dout), g.dout[m] + place);
      if (t > 1) copy<of_floats>(at(which, x_unit), g.op.x + place - 2 * g.op.rows.channels);
      copy<of_floats>(at(which, dx_unit), g.dx + place);
    }
    close_group();
  }
  template <int count, class Number>
  __device__ static void copy(uint4* to, const Number* from) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      copy_async(to + i * int(blockDim.x), reinterpret_cast<const uint4*>(from) + i);
  }

  // Before row t, the last, is walked. `first`: rows before it are not asked for.
  __device__ void begin(int64_t t, int64_t first, int64_t place) const {
    for (int i = 0; i + 1 < stages; ++i)
      ask_for(i, t - i >= first ? t - i : -1, place - i * g.op.rows.channels);
  }
  // Until row t is there; asks for the one that takes the place of row t + 1.
  __device__ void come_to(int64_t t, int64_t first, int64_t place) const {
    if (stages == 0) return;
    const int ahead = stages - 1;
    ask_for(slot == 0 ? ahead : slot - 1, t - ahead >= first ? t - ahead : -1,
            place - ahead * g.op.rows.channels);
    if (stages == 3)
      wait_for_groups<2>();
    else if (stages == 2)
      wait_for_groups<1>();
    else
      wait_for_groups<0>();
  }
  __device__ void leave() { slot = slot + 1 < stages ? slot + 1 : 0; }

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

// mu of every mix, this thread's channels: a single one in registers, more in shared memory, from
// which they come sooner than from memory's caches; where rows have no room there, nor have these.
template <int mixes>
struct OwnMus {
  static constexpr int units = mixes == 1 ? 0 : 2 * mixes;
  const float* const (&mu)[most_mixes];
  float4* memory;
  bool here, mine;
  Packed<float> only;

  __device__ OwnMus(const float* const (&all)[most_mixes], uint4* shared, bool room, bool own)
      : mu(all),
        memory(reinterpret_cast<float4*>(shared) + threadIdx.x),
        here(room && mixes > 1),
        mine(own) {
    if constexpr (mixes == 1) only = given(0);
    if (!here) return;
#pragma unroll
    for (int m = 0; m < mixes; ++m) {
      const Packed<float> one = given(m);
      memory[2 * m * blockDim.x] = one.low, memory[(2 * m + 1) * blockDim.x] = one.high;
    }
  }
  __device__ Packed<float> given(int m) const {
    return mine ? Packed<float>(mu[m] + threadIdx.x * octet) : Packed<float>();
  }
  __device__ void get(int m, float (&to)[octet]) const {
    Packed<float> one = only;
    if (here)
      one.low = memory[2 * m * blockDim.x], one.high = memory[(2 * m + 1) * blockDim.x];
    else if constexpr (mixes > 1)
      one = given(m);
    one.unpack(to);
  }
};

}  // namespace deltasane::kernel::cuda
