// SANE after a tile, which forward applies as the next tile begins: a part's products with that
// tile's vectors can begin while other parts are still neutralized. Its terms come with the tile's
// (terms.cuh), so that no warp waits for tau. Each of these is a way to do it.
#pragma once

#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"

namespace deltasane::kernel::cuda {

struct NoBoundary {
  static constexpr bool neutralizes = false;
  struct Guess {};
  template <class Stage>
  __device__ void take(const Stage&) {}  // the terms of the boundary after this tile
  __device__ bool is_on() const { return false; }
  __device__ float bound() const { return 0; }  // of small entries' magnitudes
  template <class State>
  __device__ void neutralize(State&, int) const {}  // a part, if all entries are small
  template <class State>
  __device__ void neutralize_large(State&) const {}  // given that some are not
  // As if all were small; `holds` says whether they were.
  template <class State>
  __device__ Guess guess(State&) const {
    return {};
  }
  template <class State>
  __device__ bool holds(const Guess&, const State&) const {
    return true;
  }
  template <class Stage>
  __device__ void scale_out(const Stage& stage, Accumulator& missing) const {
    stage.scale_out(missing);
  }
  template <class State, class Stage>
  __device__ void decay_and_add(State& S, int n, const Stage& stage, int column,
                                const Accumulator& added) const {
    S.decay_and_add(n, stage, column, added);
  }
};

struct SmallBoundary : NoBoundary {
  static constexpr bool neutralizes = true;
  TanhOfSmall tanh;
  __device__ explicit SmallBoundary(float tau = 0) : tanh(tau) {}
  template <class Stage>
  __device__ void take(const Stage& stage) {
    tanh = stage.terms.sane;
  }
  __device__ bool is_on() const { return tanh.tau > 0; }
  __device__ float bound() const { return tanh.bound(); }
  template <class State>
  __device__ void neutralize(State& S, int n) const {
    S.neutralize(n, tanh);
  }
  template <class State>
  __device__ void neutralize_large(State& S) const {
    if (is_on()) S.neutralize_large(tanh.tau);
  }
  template <class State>
  __device__ Guess guess(State& S) const {
#pragma unroll
    for (int n = 0; n < State::parts; ++n) S.neutralize(n, tanh);
    return {};
  }
  template <class State>
  __device__ bool holds(const Guess&, const State& before) const {
    return before.below(bound());
  }
};

// The state is g times what it is, g in the decay and in what is added: fewer instructions an entry.
struct ScaledBoundary {
  static constexpr bool neutralizes = true;
  using Guess = uint32_t;  // the least of the bits of all s, as SpeculateTiny
  TinyPolynomial tiny;     // at first of no s: none is below
  float most = 0, inverse_g = 0, decay = 0;
  template <class Stage>
  __device__ void take(const Stage& stage) {
    const TinyTerms& of = stage.terms.tiny;
    tiny.b = of.b, tiny.c = of.c, tiny.a = of.a, tiny.below = of.below, tiny.tau = of.tau;
    most = of.bound, inverse_g = of.inverse_g, decay = of.decay;
  }
  __device__ bool is_on() const { return tiny.tau > 0; }
  __device__ float bound() const { return most; }
  template <class State>
  __device__ void neutralize(State& X, int n) const {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (float& x : X.part[n].c[p]) neutralize(x);
  }
  template <class State>
  __device__ void neutralize_large(State& X) const {
    if (is_on()) Tanh(tiny.tau, inverse_g).apply([&](auto&& map) { X.each(map); });
  }
  template <class State>
  __device__ Guess guess(State& X) const {
    Guess least = ~0u;
#pragma unroll
    for (int n = 0; n < State::parts; ++n)
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        uint32_t bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(neutralize(X.part[n].c[p][i]));
        least = __vimin3_u32(least, __vimin3_u32(bits[0], bits[1], bits[2]), bits[3]);
      }
    return least;
  }
  template <class State>
  __device__ bool holds(Guess least, const State&) const {
    return __all_sync(~0u, least > __float_as_uint(tiny.below));
  }
  template <class Stage>
  __device__ void scale_out(const Stage& stage, Accumulator& missing) const {
    if constexpr (Stage::one_decay) stage.scale(missing, stage.terms.tiny_out);
  }
  template <class State, class Stage>
  __device__ void decay_and_add(State& X, int n, const Stage& stage, int column,
                                const Accumulator& added) const {
    if constexpr (Stage::one_decay) {
#pragma unroll
      for (int p = 0; p < 2; ++p)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          X.part[n].c[p][i] = fmaf(X.part[n].c[p][i], decay, added.c[p][i]);
    } else {
      X.decay_and_add(n, stage, column, added);
    }
  }

 private:
  __device__ float neutralize(float& x) const {  // returns s
    const float s = tiny.s(x);
    x *= tiny.over_X(s);
    return s;
  }
};

}  // namespace deltasane::kernel::cuda
