#include "kernel/matmul/matmul.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/cpu.h"

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

int64_t pieces_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

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

// How many parts to cut the tokens in, so that all threads have work until the end. No bit of the
// result depends on it.
int64_t token_parts(const ThreadPool& threads, int64_t row_pieces, int64_t most) {
  if (threads.size() == 1) return 1;
  return std::clamp<int64_t>(pieces_of(6 * threads.size(), row_pieces), 1,
                             std::max<int64_t>(1, most));
}

template <Isa isa, WeightType type>
void many_tokens(const Product& p) {
  constexpr int64_t width = cpu::panel_tokens(isa);
  const int64_t panels = pieces_of(p.tokens, width);
  const Buffer packed(uint64_t(cpu::packed_floats(isa, p.tokens, p.w.in())) * sizeof(float));
  auto* const x = reinterpret_cast<float*>(packed.data());
  p.threads.parallel(
      panels, [&](int64_t panel) { cpu::pack_tokens<isa>(p.x, p.tokens, p.w.in(), panel, x); });
  const cpu::Tiles tiles{p.w.rows(), p.w.out(), p.w.in(), x, p.tokens, p.y, p.sum};
  const int64_t blocks = pieces_of(p.w.out(), cpu::block_rows);
  const int64_t parts = token_parts(p.threads, blocks, p.tokens / 64);
  p.threads.parallel(blocks * parts, [&](int64_t piece) {
    const int64_t block = piece / parts, part = piece % parts;
    const Buffer scratch(uint64_t(cpu::block_floats(isa)) * sizeof(float));
    cpu::multiply_block<isa, type>(tiles, block * cpu::block_rows,
                                   {part * panels / parts, (part + 1) * panels / parts},
                                   reinterpret_cast<float*>(scratch.data()));
  });
}

// Many tokens go in passes, which bounds the memory of the packed x.
inline constexpr int64_t pass_tokens = 1024;

template <Isa isa, WeightType type>
void multiply(const Product& p) {
  if (p.tokens <= matmul_few_tokens) return few_tokens<isa, type>(p);
  for (int64_t t = 0; t < p.tokens; t += pass_tokens) {
    const Product pass{p.w,
                       {p.x.at(t), p.x.step},
                       {p.y.at(t), p.y.step},
                       std::min(pass_tokens, p.tokens - t),
                       p.sum,
                       p.threads};
    many_tokens<isa, type>(pass);
  }
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

template <class T>
void expect_lines(std::string_view name, const View<T>& view) {
  if (view.shape.rank() != 2)
    fail(Fault::argument, name, ": expected (tokens, channels), found ", view.shape);
  if (view.shape[1] > 1 && view.stride[1] != 1)
    fail(Fault::argument, name, ": expected channels side by side, found a stride of ",
         view.stride[1]);
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
