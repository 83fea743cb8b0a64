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
  const int64_t in = p.w.in(), out = p.w.out(), numbers = p.tokens * q8_blocks(in);
  const Buffer memory(uint64_t(cpu::q8_token_bytes(p.tokens, in)));
  auto* const scale = reinterpret_cast<float*>(memory.data() + numbers * q8_columns);
  const cpu::Q8Tokens x{reinterpret_cast<int8_t*>(memory.data()), scale,
                        reinterpret_cast<int32_t*>(scale + numbers), p.tokens};
  const cpu::Q8Product product{p.w.blocks(), out, in, x, p.y, p.sum};
  const int64_t token_groups = pieces_of(p.tokens, cpu::q8_tokens);
  const auto quantize = [&](int64_t group) { cpu::quantize_tokens<isa>(p.x, in, group, x); };
  if (p.tokens <= matmul_few_tokens) {
    for (int64_t group = 0; group < token_groups; ++group) quantize(group);
    const int64_t row_groups = q8_groups(out);
    const int64_t group_bytes = q8_blocks(in) * int64_t(sizeof(Q8Block));
    const int64_t together = std::max<int64_t>(1, (int64_t{64} << 10) / group_bytes);
    p.threads.parallel(pieces_of(row_groups, together), [&](int64_t piece) {
      cpu::q8_few_tokens<isa>(product,
                              {piece * together, std::min(row_groups, (piece + 1) * together)});
    });
    return;
  }
  p.threads.parallel(token_groups, quantize);
  const int64_t panels = pieces_of(out, cpu::q8_panel_rows(isa));
  const int64_t parts = token_parts(p.threads, panels, p.tokens / 64);
  p.threads.parallel(panels * parts, [&](int64_t piece) {
    const int64_t panel = piece / parts, part = piece % parts;
    const Buffer scratch(uint64_t(cpu::q8_panel_bytes(isa, in)));
    cpu::q8_many_tokens<isa>(product, panel,
                             {part * token_groups / parts, (part + 1) * token_groups / parts},
                             scratch.data());
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
