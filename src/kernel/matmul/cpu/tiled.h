// A product of many tokens through packed panels, on all threads.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

#include "base/threads.h"
#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/matmul.h"
#include "tensor/buffer.h"

namespace deltasane::kernel {

constexpr int64_t pieces_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

// How many parts the tokens are cut into, so that all threads are busy until the end. No bit of the
// result depends on it.
inline int64_t token_parts(const ThreadPool& threads, int64_t row_pieces, int64_t most) {
  if (threads.size() == 1) return 1;
  return std::clamp<int64_t>(pieces_of(6 * threads.size(), row_pieces), 1,
                             std::max<int64_t>(1, most));
}

// What is done with a piece of y (tokens, rows) that is complete; may be empty.
using Finish = std::function<void(cpu::Strided<float> y, int64_t tokens, int64_t rows)>;

// Calls body(x) with a panel's rows of x, which are there, or are computed now.
template <class Body>
void with_rows(const RowsOfX& rows, cpu::Strided<const float> there, int64_t first, int64_t count,
               int64_t in, const Body& body) {
  if (!rows) return body(there);
  const int64_t stride = in + 16;  // rows a power of two apart would conflict in one cache set
  const Buffer computed(uint64_t(count * stride) * sizeof(float));
  auto* const to = reinterpret_cast<float*>(computed.data());
  for (int64_t row = 0; row < count; ++row) rows(first + row, to + row * stride);
  body(cpu::Strided<const float>{to, stride});
}

// How many rows and which part of the tokens a piece of tiles has. Each part packs W again, which takes
// as long as tiles take for a hundred tokens; with few rows, x passes through the caches often.
struct PieceShape {
  int64_t rows, parts;
};
inline PieceShape piece_of_tiles(const ThreadPool& threads, int64_t rows, int64_t tokens,
                                 int64_t most_rows) {
  constexpr int64_t tile = cpu::tile_side, enough_rows = 2 * tile;
  const int64_t pieces = threads.size() == 1 ? 1 : 2 * threads.size();
  for (int64_t parts = 1;; parts *= 2) {
    const int64_t wanted = cpu::rounded_up(pieces_of(rows * parts, pieces), tile);
    if (wanted >= enough_rows || parts * 128 > tokens)
      return {std::clamp(wanted, tile, most_rows), parts};
  }
}

struct TiledProduct {
  cpu::Strided<const float> x;  // (tokens, in)
  const void* w;                // (rows, in)
  int64_t w_stride;
  int64_t tokens, rows, in;
  cpu::Strided<float> y;  // (tokens, rows)
  cpu::Sum sum;
  Finish finish = {};
  RowsOfX rows_of_x = {};
  cpu::ColumnBlocks columns = {};   // of y
  const float* packed_x = nullptr;  // x, if it is packed already
  cpu::PackedY packed_y = {};
  BufferPool* buffers = nullptr;
};
inline std::shared_ptr<Buffer> buffer_of(BufferPool* pool, uint64_t bytes) {
  return pool ? pool->take(bytes) : std::make_shared<Buffer>(Buffer::in_huge_pages(bytes));
}

// A product in two phases, each of them steps in any order on any thread: x is prepared, then pieces of
// y are computed.
struct TwoPhases {
  struct Phase {
    int64_t steps;
    std::function<void(int64_t)> run;
  };
  Phase phase[2];
};

// Products that do not need each other, with two waits for all threads in place of two for each.
inline void run_together(std::span<const TwoPhases> products, ThreadPool& threads) {
  for (const int phase : {0, 1}) {
    int64_t steps = 0;
    for (const TwoPhases& one : products) steps += one.phase[phase].steps;
    threads.parallel(steps, [&](int64_t step) {
      const TwoPhases* one = products.data();
      for (; step >= one->phase[phase].steps; ++one) step -= one->phase[phase].steps;
      one->phase[phase].run(step);
    });
  }
}

struct WholeProduct {
  int64_t tokens, rows;
};
inline void finish_piece(const Finish& finish, cpu::Strided<float> y, WholeProduct whole,
                         cpu::Range tokens, cpu::Range rows) {
  if (!finish) return;
  finish({y.at(tokens.begin) + rows.begin, y.stride},
         std::min(tokens.end, whole.tokens) - tokens.begin,
         std::min(rows.end, whole.rows) - rows.begin);
}

// rows_beside: of the products it is run together with.
template <Isa isa, WeightType type, cpu::Layout x_layout, cpu::Layout w_layout>
TwoPhases tiled_phases(const TiledProduct& p, const ThreadPool& threads, int64_t rows_beside) {
  constexpr int64_t width = cpu::panel_tokens(isa, type);
  const int64_t panels = pieces_of(p.tokens, width);
  const int64_t floats_of_x = p.packed_x ? 0 : cpu::packed_floats(isa, type, p.tokens, p.in);
  const auto packed = buffer_of(p.buffers, uint64_t(floats_of_x) * sizeof(float));
  auto* const x = reinterpret_cast<float*>(packed->data());
  constexpr int64_t most_rows = cpu::block_rows(isa, type);
  const auto shape = [&]() -> PieceShape {
    const int64_t rows = p.rows + rows_beside;
    if (cpu::rounds_to_bf16(isa, type)) return piece_of_tiles(threads, rows, p.tokens, most_rows);
    return {most_rows, token_parts(threads, pieces_of(rows, most_rows), p.tokens / 64)};
  }();
  const int64_t rows = shape.rows, parts = shape.parts, blocks = pieces_of(p.rows, rows);
  const cpu::Tiles tiles{p.w,      p.w_stride, p.rows, p.in,      p.packed_x ? p.packed_x : x,
                         p.tokens, p.y,        p.sum,  p.columns, p.packed_y};
  return {{{p.packed_x ? 0 : panels,
            [=](int64_t panel) {
              const int64_t first = panel * width, count = std::min(width, p.tokens - first);
              const bool by_rows = x_layout == cpu::Layout::row_major;
              with_rows(p.rows_of_x, {by_rows ? p.x.at(first) : p.x.first + first, p.x.stride},
                        first, count, p.in, [&](cpu::Strided<const float> some) {
                          cpu::pack_tokens<isa, type, x_layout>(some, p.tokens, p.in, panel, x);
                        });
            }},
           {blocks * parts, [=](int64_t piece) {
              const int64_t block = piece / parts, part = piece % parts;
              const cpu::Range some{part * panels / parts, (part + 1) * panels / parts};
              const cpu::Range some_rows{block * rows, std::min((block + 1) * rows, p.rows)};
              const int64_t floats = cpu::block_floats(isa, type);
              const auto scratch = buffer_of(p.buffers, uint64_t(floats) * sizeof(float));
              auto* const memory = reinterpret_cast<float*>(scratch->data());
              if constexpr (cpu::rounds_to_bf16(isa, type))
                cpu::multiply_rounded<isa, type>(tiles, some_rows, some, memory);
              else
                cpu::multiply_block<isa, type, w_layout>(tiles, some_rows, some, memory);
              finish_piece(p.finish, p.y, {p.tokens, p.rows},
                           {some.begin * width, some.end * width}, some_rows);
              static_cast<void>(packed);  // kept until the last piece
            }}}};
}

// The same of a small matrix (is_small).
template <Isa isa, WeightType type>
TwoPhases small_phases(const TiledProduct& p, const ThreadPool& threads) {
  constexpr int64_t tile = cpu::tile_side, bytes = sizeof(uint16_t);
  const int64_t padded = cpu::rounded_up(p.in, tile), panels = pieces_of(p.tokens, tile);
  const int64_t row_tiles = pieces_of(p.rows, tile);
  const int64_t parts =
      threads.size() == 1 ? 1 : std::min(pieces_of(2 * threads.size(), panels), row_tiles);
  const int64_t numbers = padded * tile * cpu::small_parts(type, true);
  const int64_t numbers_of_x = padded * tile * cpu::small_parts(type, false);
  const auto rows = buffer_of(p.buffers, uint64_t(row_tiles * numbers * bytes));
  auto* const w = reinterpret_cast<uint16_t*>(rows->data());
  return {{{row_tiles,
            [=](int64_t one) {
              cpu::pack_small_rows<isa, type>(p.w, one * tile, p.rows - one * tile, p.in,
                                              w + one * numbers);
            }},
           {panels * parts, [=](int64_t piece) {
              const int64_t first = piece / parts * tile, part = piece % parts;
              const int64_t count = std::min(tile, p.tokens - first);
              const auto packed = buffer_of(p.buffers, uint64_t(numbers_of_x * bytes));
              auto* const x = reinterpret_cast<uint16_t*>(packed->data());
              with_rows(p.rows_of_x, {p.x.at(first), p.x.stride}, first, count, p.in,
                        [&](cpu::Strided<const float> some) {
                          cpu::pack_small_tokens<isa, type>(some, count, p.in, x);
                        });
              const cpu::Range some{part * row_tiles / parts * tile,
                                    std::min((part + 1) * row_tiles / parts * tile, p.rows)};
              cpu::multiply_small<isa, type>({w, 0, p.rows, p.in, reinterpret_cast<float*>(x),
                                              p.tokens, p.y, p.sum, p.columns},
                                             some, first);
              finish_piece(p.finish, p.y, {p.tokens, p.rows}, {first, first + tile}, some);
              static_cast<void>(rows);  // kept until the last piece
            }}}};
}

// In passes of some tokens, which bounds the memory of the packed x.
inline constexpr int64_t pass_tokens = 1024;
template <Isa isa, WeightType type, cpu::Layout x_layout, cpu::Layout w_layout>
void multiply_tiled(const TiledProduct& whole, ThreadPool& threads) {
  for (int64_t t = 0; t < whole.tokens; t += pass_tokens) {
    TiledProduct pass = whole;
    pass.x.first = x_layout == cpu::Layout::row_major ? whole.x.at(t) : whole.x.first + t;
    pass.y.first = whole.y.at(t);
    pass.tokens = std::min(pass_tokens, whole.tokens - t);
    if (whole.rows_of_x)
      pass.rows_of_x = [&whole, t](int64_t row, float* to) { whole.rows_of_x(t + row, to); };
    const TwoPhases phases[] = {tiled_phases<isa, type, x_layout, w_layout>(pass, threads, 0)};
    run_together(phases, threads);
  }
}

}  // namespace deltasane::kernel
