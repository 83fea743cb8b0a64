#include <cstring>

#include "kernel/matmul/cpu.h"
#include "kernel/matmul/stored.h"

namespace deltasane::kernel::cpu {
namespace {

// R rows times T tokens. Each sum lives in two vectors, whatever R and T are, so that a token's
// result does not depend on who is computed beside it. Two vectors by R by T are enough sums to
// hide the latency of a multiply-add.
template <Isa isa, WeightType type, int R, int T>
struct Dots {
  static constexpr int lanes = lanes_of(isa);
  static constexpr int step = 2 * lanes;
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  Vec sum[R][T][2] = {};

  [[gnu::always_inline]] inline void take(const Element<type>* const (&w)[R],
                                          const float* const (&x)[T], int64_t at) {
    Vec wide[R][2];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) wide[r][h] = load_stored<isa, type>(w[r] + at + h * lanes);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const Vec one = V::load(x[t] + at + h * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[r][t][h] += wide[r][h] * one;
      }
  }

  // The last inputs, fewer than a step, through copies that end in zeros.
  void take_rest(const Element<type>* const (&w)[R], const float* const (&x)[T], int64_t at,
                 int64_t count) {
    Element<type> w_copy[R][step] = {};
    float x_copy[T][step] = {};
    const Element<type>* w_rest[R];
    const float* x_rest[T];
    for (int r = 0; r < R; ++r) {
      std::memcpy(w_copy[r], w[r] + at, size_t(count) * sizeof(Element<type>));
      w_rest[r] = w_copy[r];
    }
    for (int t = 0; t < T; ++t) {
      std::memcpy(x_copy[t], x[t] + at, size_t(count) * sizeof(float));
      x_rest[t] = x_copy[t];
    }
    take(w_rest, x_rest, 0);
  }
};

struct Place {
  int64_t row, token;
};

template <Isa isa, WeightType type, int R, int T>
void dot_block(const Element<type>* rows, int64_t in, Lines<const float> x, Place place,
               Lines<float> y, Sum how) {
  using Block = Dots<isa, type, R, T>;
  const Element<type>* w[R];
  const float* inputs[T];
  for (int r = 0; r < R; ++r) w[r] = rows + (place.row + r) * in;
  for (int t = 0; t < T; ++t) inputs[t] = x.at(place.token + t);
  Block dots;
  int64_t at = 0;
  for (; at + Block::step <= in; at += Block::step) dots.take(w, inputs, at);
  if (at < in) dots.take_rest(w, inputs, at, in - at);
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < R; ++r) {
      float& to = y.at(place.token + t)[place.row + r];
      const float value = Block::V::sum(dots.sum[r][t][0] + dots.sum[r][t][1]);
      to = how == Sum::add ? to + value : value;
    }
}

template <Isa isa, WeightType type, int R>
void dot_tokens(const Element<type>* rows, int64_t in, Lines<const float> x, int64_t tokens,
                int64_t row, Lines<float> y, Sum sum) {
  int64_t t = 0;
  for (; t + 4 <= tokens; t += 4) dot_block<isa, type, R, 4>(rows, in, x, {row, t}, y, sum);
  if (tokens - t == 3) dot_block<isa, type, R, 3>(rows, in, x, {row, t}, y, sum);
  if (tokens - t == 2) dot_block<isa, type, R, 2>(rows, in, x, {row, t}, y, sum);
  if (tokens - t == 1) dot_block<isa, type, R, 1>(rows, in, x, {row, t}, y, sum);
}

}  // namespace

template <Isa isa, WeightType type>
void dot_rows(const void* w, Range range, int64_t in, Lines<const float> x, int64_t tokens,
              Lines<float> y, Sum sum) {
  const auto* rows = static_cast<const Element<type>*>(w);
  int64_t row = range.begin;
  if (tokens == 1)
    for (; row + 4 <= range.end; row += 4)
      dot_block<isa, type, 4, 1>(rows, in, x, {row, 0}, y, sum);
  constexpr int together = registers_of(isa) == 32 ? 2 : 1;
  for (; row + together <= range.end; row += together)
    dot_tokens<isa, type, together>(rows, in, x, tokens, row, y, sum);
  for (; row < range.end; ++row) dot_tokens<isa, type, 1>(rows, in, x, tokens, row, y, sum);
}

template void dot_rows<Isa::DELTASANE_ISA, WeightType::f32>(const void*, Range, int64_t,
                                                            Lines<const float>, int64_t,
                                                            Lines<float>, Sum);
template void dot_rows<Isa::DELTASANE_ISA, WeightType::f16>(const void*, Range, int64_t,
                                                            Lines<const float>, int64_t,
                                                            Lines<float>, Sum);
template void dot_rows<Isa::DELTASANE_ISA, WeightType::bf16>(const void*, Range, int64_t,
                                                             Lines<const float>, int64_t,
                                                             Lines<float>, Sum);

}  // namespace deltasane::kernel::cpu
