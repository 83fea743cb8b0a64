#include <cstring>

#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/cpu/stored.h"

namespace deltasane::kernel::cpu {
namespace {

// R rows times T tokens, each sum in A vectors: R by T by A independent chains of multiply-adds.
template <Isa isa, WeightType type, int R, int T, int A>
struct Dots {
  static constexpr int lanes = lanes_of(isa), step = A * lanes;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  Vec sum[R][T][A] = {};

  // x: (token, step).
  [[gnu::always_inline]] inline void accumulate(const Element<type>* const (&w)[R], int64_t at,
                                                const float* x) {
    Vec wide[R][A];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) load_vectors<isa, type>(w[r] + at, wide[r]);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
      for (int i = 0; i < A; ++i) {
        const Vec one = V::load(x + t * step + i * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[r][t][i] += wide[r][i] * one;
      }
  }

  [[gnu::always_inline]] inline float total(int r, int t) const {
    Vec all = sum[r][t][0];
#pragma GCC unroll 4
    for (int i = 1; i < A; ++i) all += sum[r][t][i];
    return V::sum(all);
  }
};

// w: R rows of `in`; x: (steps, token, step); y: (token, row).
template <Isa isa, WeightType type, int R, int T, int A>
void dot_block(const Element<type>* rows, int64_t in, const float* x, Strided<float> y, Sum how) {
  using Block = Dots<isa, type, R, T, A>;
  const Element<type>* w[R];
  for (int r = 0; r < R; ++r) w[r] = rows + r * in;
  // Software prefetch. One token: what comes next, also across pages, where the hardware prefetcher
  // stops. More tokens: the next rows, while these are bound by arithmetic.
  constexpr int64_t line = 64 / int64_t(sizeof(Element<type>));
  const int64_t ahead = T == 1 ? 32 * line : R * in;
  Block dots;
  int64_t at = 0;
  for (; at + Block::step <= in; at += Block::step, x += T * Block::step) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int64_t i = 0; i < Block::step; i += line) __builtin_prefetch(w[r] + at + ahead + i);
    dots.accumulate(w, at, x);
  }
  if (at < in) {
    Element<type> rest[R][Block::step] = {};
    for (int r = 0; r < R; ++r) {
      std::memcpy(rest[r], w[r] + at, size_t(in - at) * sizeof(Element<type>));
      w[r] = rest[r];
    }
    dots.accumulate(w, 0, x);
  }
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float& to = y.at(t)[r];
      to = how == Sum::add ? to + dots.total(r, t) : dots.total(r, t);
    }
}

template <Isa isa, WeightType type, int R>
void dot_group(const Element<type>* rows, int64_t in, const float* x, int64_t tokens,
               Strided<float> y, Sum sum) {
  if constexpr (dot_tokens(isa) == 4) {
    if (tokens == 4) dot_block<isa, type, R, 4, 2>(rows, in, x, y, sum);
    if (tokens == 3) dot_block<isa, type, R, 3, 2>(rows, in, x, y, sum);
  }
  if (tokens == 2) dot_block<isa, type, R, 2, 2>(rows, in, x, y, sum);
  if (tokens == 1) dot_block<isa, type, R, 1, 2>(rows, in, x, y, sum);
}

}  // namespace

template <Isa isa>
void interleave_tokens(Strided<const float> x, int64_t tokens, int64_t in, float* interleaved) {
  constexpr int64_t step = 2 * lanes_of(isa), group = dot_tokens(isa);
  const int64_t padded = rounded_up(in, dot_step(isa)), whole = in / step * step;
  for (int64_t first = 0; first < tokens; first += group) {
    const int64_t count = tokens - first < group ? tokens - first : group;
    for (int64_t t = 0; t < count; ++t) {
      const float* from = x.at(first + t);
      float* to = interleaved + first * padded + t * step;
      for (int64_t at = 0; at < whole; at += step, to += count * step)
        for (int64_t i = 0; i < step; ++i) to[i] = from[at + i];
      for (int64_t at = whole; at < padded; at += step, to += count * step)
        for (int64_t i = 0; i < step; ++i) to[i] = at + i < in ? from[at + i] : 0.0f;
    }
  }
}

// One token takes rows one by one: several at a time are several memory streams, and reach two
// thirds of the bandwidth of one. More tokens share the loads of two rows; four would conflict in
// one cache set where rows are a power of two apart.
template <Isa isa, WeightType type>
void dot_rows(const void* w, Range range, int64_t in, const float* interleaved, int64_t tokens,
              Strided<float> y, Sum sum) {
  constexpr int64_t group = dot_tokens(isa);
  const auto* elements = static_cast<const Element<type>*>(w);
  const int64_t padded = rounded_up(in, dot_step(isa));
  if (tokens == 1) {
    for (int64_t row = range.begin; row < range.end; ++row)
      dot_block<isa, type, 1, 1, 4>(elements + row * in, in, interleaved, {y.first + row, y.stride},
                                    sum);
    return;
  }
  for (int64_t row = range.begin; row < range.end; row += 2)
    for (int64_t t = 0; t < tokens; t += group) {
      const int64_t count = tokens - t < group ? tokens - t : group;
      const Strided<float> to{y.at(t) + row, y.stride};
      if (row + 1 < range.end)
        dot_group<isa, type, 2>(elements + row * in, in, interleaved + t * padded, count, to, sum);
      else
        dot_group<isa, type, 1>(elements + row * in, in, interleaved + t * padded, count, to, sum);
    }
}

template <Isa isa>
float split_token(const float* x, int64_t in, uint16_t* pairs) {
  if constexpr (HalfProducts<isa>::present) {
    using V = Simd<lanes_of(isa)>;
    typename V::Int size = {};
    for (int64_t i = 0; i < in; i += lanes_of(isa))
      size = V::larger(size, V::bits(V::load(x + i)) & 0x7fffffff);
    const int32_t largest = V::largest(size) >> 23;  // its exponent, and 127
    if (largest == 255) return 0;
    // The largest number becomes at least 2^14 and less than 2^15; scales stay normal numbers.
    const int32_t exponent = largest < 15 ? 15 : largest;
    const float up = __builtin_bit_cast(float, (127 + 127 + 14 - exponent) << 23);
    for (int64_t at = 0; at < in; at += 8) {
      float scaled[8];
      for (int i = 0; i < 8; ++i) scaled[i] = x[at + i] * up;
      HalfProducts<isa>::split(scaled, pairs + 2 * at, pairs + 2 * at + 8);
    }
    return __builtin_bit_cast(float, (exponent - 14) << 23);
  } else {
    return 0;
  }
}

// A weight that is not finite, with the first f16 number of its input alone: the second may be 0,
// which would make a NaN of an infinite weight.
template <Isa isa>
[[maybe_unused]] float sum_of_high(const uint16_t* w, int64_t in, const uint16_t* pairs) {
  using V = Simd<lanes_of(isa)>;
  typename V::Vec sum = {};
  for (int64_t at = 0; at < in; at += 8)
    for (int i = 0; i < 8; i += lanes_of(isa))
      sum += load_f16<isa>(w + at + i) * load_f16<isa>(pairs + 2 * at + i);
  return V::sum(sum);
}

template <Isa isa>
void half_rows(const void* w, Range range, int64_t in, const uint16_t* pairs, float scale, float* y,
               Sum how) {
  if constexpr (HalfProducts<isa>::present) {
    using V = Simd<lanes_of(isa)>;
    for (int64_t row = range.begin; row < range.end; ++row) {
      const auto* const from = static_cast<const uint16_t*>(w) + row * in;
      typename V::Vec even[4] = {}, odd[4] = {};
      for (int64_t at = 0; at < in; at += half_step) {
        // Into L2, 8 KiB ahead, a line at a time: the hardware's prefetcher stays closer.
        if (at % 32 == 0) __builtin_prefetch(from + at + 4096, 0, 2);
        HalfProducts<isa>::add(even, from + at, pairs + 2 * at, pairs + 2 * at + 8);
        HalfProducts<isa>::add(odd, from + at + 8, pairs + 2 * at + 16, pairs + 2 * at + 24);
      }
      const typename V::Vec high = (even[0] + odd[0]) + (even[1] + odd[1]);
      const typename V::Vec low = (even[2] + odd[2]) + (even[3] + odd[3]);
      float total = V::sum(high + low) * scale;
      if (!__builtin_isfinite(total)) total = sum_of_high<isa>(from, in, pairs);
      y[row] = how == Sum::add ? y[row] + total : total;
    }
  }
}

template float split_token<Isa::DELTASANE_ISA>(const float*, int64_t, uint16_t*);
template void half_rows<Isa::DELTASANE_ISA>(const void*, Range, int64_t, const uint16_t*, float,
                                            float*, Sum);
template void interleave_tokens<Isa::DELTASANE_ISA>(Strided<const float>, int64_t, int64_t, float*);
template void dot_rows<Isa::DELTASANE_ISA, WeightType::f32>(const void*, Range, int64_t,
                                                            const float*, int64_t, Strided<float>,
                                                            Sum);
template void dot_rows<Isa::DELTASANE_ISA, WeightType::f16>(const void*, Range, int64_t,
                                                            const float*, int64_t, Strided<float>,
                                                            Sum);
template void dot_rows<Isa::DELTASANE_ISA, WeightType::bf16>(const void*, Range, int64_t,
                                                             const float*, int64_t, Strided<float>,
                                                             Sum);

}  // namespace deltasane::kernel::cpu
