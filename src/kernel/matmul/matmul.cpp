#include "kernel/matmul/matmul.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/lines.h"
#include "kernel/matmul/tiled.h"

namespace deltasane::kernel {
namespace {

using cpu::Lines;
using cpu::Range;
using cpu::Sum;

struct Product {
  const Weights& w;
  Lines<const float> x;
  Lines<float> y;
  int64_t tokens;
  Sum sum;
  ThreadPool& threads;
};

// The weights once through all threads, in pieces of 64 KiB: large enough to hide the hand-over,
// and small enough that the last piece does not keep the others waiting.
template <Isa isa, WeightType type>
void few_tokens(const Product& p) {
  const int64_t row_bytes = p.w.in() * element_bytes(type);
  const int64_t rows = std::max<int64_t>(1, (int64_t{64} << 10) / row_bytes);
  const Buffer laid(uint64_t(cpu::laid_floats(isa, p.tokens, p.w.in())) * sizeof(float));
  auto* const x = reinterpret_cast<float*>(laid.data());
  cpu::lay_tokens<isa>(p.x, p.tokens, p.w.in(), x);
  p.threads.parallel(pieces_of(p.w.out(), rows), [&](int64_t piece) {
    const Range range{piece * rows, std::min(p.w.out(), (piece + 1) * rows)};
    cpu::dot_rows<isa, type>(p.w.rows(), range, p.w.in(), x, p.tokens, p.y, p.sum);
  });
}

template <Isa isa, WeightType type>
void multiply(const Product& p) {
  if (p.tokens <= matmul_few_tokens) return few_tokens<isa, type>(p);
  multiply_tiled<isa, type, cpu::Lie::rows, cpu::Lie::rows>(
      {p.x, p.w.rows(), p.w.in(), p.tokens, p.w.out(), p.w.in(), p.y, p.sum}, p.threads);
}

template <Isa isa>
void multiply_q8(const Product& p) {
  const int64_t blocks = q8_blocks(p.w.in()), groups = q8_groups(p.w.out());
  const uint64_t numbers = uint64_t(p.tokens * blocks);
  const Buffer memory(numbers * (q8_columns + sizeof(float)));
  const cpu::Q8Tokens x{reinterpret_cast<int8_t*>(memory.data()),
                        reinterpret_cast<float*>(memory.data() + numbers * q8_columns)};
  const auto quantize = [&](int64_t t) { cpu::quantize_token<isa>(p.x.at(t), p.w.in(), t, x); };
  if (p.tokens <= matmul_few_tokens)
    for (int64_t t = 0; t < p.tokens; ++t) quantize(t);
  else
    p.threads.parallel(p.tokens, quantize);
  const int64_t group_bytes = blocks * int64_t(sizeof(Q8Block));
  const int64_t together = std::max<int64_t>(1, (int64_t{64} << 10) / group_bytes);
  const int64_t pieces = pieces_of(groups, together);
  const int64_t parts = token_parts(p.threads, pieces, p.tokens / 32);
  p.threads.parallel(pieces * parts, [&](int64_t index) {
    const int64_t piece = index / parts, part = index % parts;
    const int64_t quads = pieces_of(p.tokens, 4);
    cpu::q8_multiply<isa>(
        p.w.blocks(), {piece * together, std::min(groups, (piece + 1) * together)}, p.w.out(),
        p.w.in(), x, {part * quads / parts * 4, std::min(p.tokens, (part + 1) * quads / parts * 4)},
        p.y, p.sum);
  });
}

}  // namespace

void matmul(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu, Store store) {
  expect_lines("x", x);
  expect_lines("y", y);
  const int64_t tokens = x.shape[0];
  expect_shape("x", x, {tokens, w.in()});
  expect_shape("y", y, {tokens, w.out()});
  if (tokens == 0) return;
  const Product product{w,
                        {x.data, x.stride[0]},
                        {y.data, y.stride[0]},
                        tokens,
                        store == Store::add ? Sum::add : Sum::start,
                        cpu.threads};
  with_isa(cpu.isa, [&]<Isa isa>() {
    switch (w.type()) {
      case WeightType::f32:
        return multiply<isa, WeightType::f32>(product);
      case WeightType::f16:
        return multiply<isa, WeightType::f16>(product);
      case WeightType::bf16:
        return multiply<isa, WeightType::bf16>(product);
      case WeightType::q8:
        return multiply_q8<isa>(product);
    }
  });
}

}  // namespace deltasane::kernel
