// Products of many tokens with quantized weights as tiles of bf16 numbers (tile_halves.h). For files
// compiled per instruction set.
//
// A panel of W (32 rows, one depth: 32 KiB) stays in L1, while x passes from L2, where a chunk of it (1 MiB)
// stays for all rows. The panel after it is packed meanwhile, by vectors, which tiles leave idle.
#pragma once

#include "kernel/isa_bf16.h"
#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/cpu/tile_halves.h"
#include "kernel/matmul/cpu/tile_quantized.h"

namespace deltasane::kernel {
namespace {

template <Isa isa, class Reader, class SomeTiles = HardwareTiles<isa>>
class RoundedBlock {
 public:
  // Types differ in their Reader alone.
  using Tile = HalfTiles<isa, WeightType::q8>;
  static constexpr int64_t depth = 512;

  static void multiply(const cpu::Tiles& product, cpu::Range rows, cpu::Range panels,
                       float* scratch) {
    SomeTiles tiles;
    RoundedBlock(tiles, product, rows, panels, scratch).run();
  }

 private:
  using V = Simd<tile_rows>;
  using Packer = RowsPacker<isa, Reader>;

  RoundedBlock(SomeTiles& tiles, const cpu::Tiles& product, cpu::Range rows, cpu::Range panels,
               float* scratch)
      : tiles_(tiles), p_(product), rows_(rows), panels_(panels) {
    constexpr int64_t numbers = Tile::rows * depth;
    w_[0] = reinterpret_cast<uint16_t*>(scratch), w_[1] = w_[0] + numbers;
    tile_ = scratch + numbers;  // two panels of half as many floats
    sums_ = tile_ + Tile::tokens * Tile::rows;
  }

  void run() {
    Panel now = first();
    pack_all_rows<isa, Reader>(source(now), w_[0]);
    for (int which = 0; now.row < rows_.end; which ^= 1) {
      const Panel next = after(now);
      const bool ends = next.row >= rows_.end;
      Packer packer(ends ? nothing() : source(next),
                    ends || after(next).row >= rows_.end ? nothing() : source(after(next)),
                    w_[which ^ 1]);
      multiply_panel(now, w_[which], packer);
      now = next;
    }
    if (finished_.token >= 0) finish_tokens(0, Tile::tokens);
  }

  // Of W, for the tokens of a chunk of x, which has some of the inputs.
  struct Panel {
    cpu::Range tokens, inputs;  // of the chunk, the former in panels
    int64_t row, k;             // rows_.end: after the last one
  };
  cpu::QuantizedRows source(const Panel& panel) const {
    return {p_.w, p_.in, panel.row, panel.k, p_.rows - panel.row, depth_of(panel.k)};
  }
  cpu::QuantizedRows nothing() const { return {p_.w, p_.in, 0, 0, 0, 0}; }
  int64_t depth_of(int64_t k) const { return p_.in - k < depth ? p_.in - k : depth; }
  cpu::Range chunk_tokens(int64_t begin) const {
    const int64_t end = begin + cpu::chunk_panels(chunk_depth());
    return {begin, end < panels_.end ? end : panels_.end};
  }
  cpu::Range chunk_inputs(int64_t begin) const {
    const int64_t end = begin + chunk_depth();
    return {begin, end < p_.in ? end : p_.in};
  }
  // Sums of a packed y pass through no y.
  int64_t chunk_depth() const {
    return p_.packed_y.to && cpu::chunk_depth < p_.in ? p_.in : cpu::chunk_depth;
  }
  Panel first() const { return {chunk_tokens(panels_.begin), chunk_inputs(0), rows_.begin, 0}; }
  Panel after(Panel one) const {
    if ((one.k += depth) < one.inputs.end) return one;
    one.k = one.inputs.begin;
    if ((one.row += Tile::rows) < rows_.end) return one;
    one.row = rows_.begin;
    if (one.inputs.end < p_.in) {
      one.inputs = chunk_inputs(one.inputs.end);
    } else {
      one.inputs = chunk_inputs(0);
      if (one.tokens.end == panels_.end) one.row = rows_.end;
      one.tokens = chunk_tokens(one.tokens.end);
    }
    one.k = one.inputs.begin;
    return one;
  }
  [[gnu::always_inline]] inline void multiply_panel(const Panel& panel, const uint16_t* w,
                                                    Packer& packer) {
    const int64_t all = cpu::rounded_up(p_.tokens, Tile::tokens);
    const int64_t padded = cpu::rounded_up(depth_of(panel.k), Tile::inputs);
    const int64_t steps = padded / Tile::inputs;
    const int64_t rounds = steps / Packer::steps * (panel.tokens.end - panel.tokens.begin);
    const int64_t units = rounds == 0 ? 0 : (packer.left() + rounds - 1) / rounds;
    // Not before the sums of the last steps are there.
    const int64_t finished_at_once = (Tile::tokens + steps - steps / 4 - 1) / (steps - steps / 4);
    const bool first = panel.k == panel.inputs.begin, last = panel.k + depth >= panel.inputs.end;
    const auto* const packed = reinterpret_cast<const uint16_t*>(p_.packed) + panel.k * all;
    const cpu::Sum how = panel.inputs.begin == 0 ? p_.sum : cpu::Sum::add;
    Tile::begin(tiles_, {packed + panel.tokens.begin * Tile::tokens * padded, w});
    for (int64_t one = panel.tokens.begin; one < panel.tokens.end; ++one) {
      const int64_t token = one * Tile::tokens;
      const bool packs_y = last && p_.packed_y.to;
      const cpu::Strided<float> y =
          packs_y ? cpu::Strided<float>{tile_, Tile::rows} : p_.y_at(token, panel.row);
      const Part part =
          packs_y ? Part{Tile::tokens, Tile::rows} : Part{p_.tokens - token, p_.rows - panel.row};
      // A y that is added to is read first, for the next tokens; another is written at the end.
      const bool reads = first && how == cpu::Sum::add;
      const cpu::Strided<float> soon{reads ? y.at(Tile::tokens) : y.first, y.stride};
      const bool prefetches = (reads || last) && !packs_y && y.stride <= most_stride &&
                              part.tokens >= (reads ? 2 : 1) * Tile::tokens;
      const bool ends = one + 1 == panel.tokens.end;
      typename Tile::Operands next{packed + token * padded, w};
      int64_t step = 0;
      const auto multiply = [&]() __attribute__((always_inline)) {
        next.x += Tile::part, next.w += Tile::part;
        if (++step == steps) next = {ends ? w : next.x, w};  // at the end anything is loaded
        Tile::template step<Tile::Change::both>(tiles_, next);
        if (prefetches) prefetch(soon, step - 1);
        if (finished_.token >= 0 && step > steps / 4)
          finish_tokens((step - 1 - steps / 4) * finished_at_once, finished_at_once);
      };
      const auto steps_of_depth = [&]() __attribute__((always_inline)) {
        while (steps - step >= Packer::steps) packer.pack(units, multiply);
        while (step < steps) multiply();
      };
      const KeptSums sums{sums_ + (one - panel.tokens.begin) * Tile::tokens * Tile::rows, first,
                          last, how};
      Tile::multiply_part(tiles_, y, part, sums, steps_of_depth);
      if (packs_y) finished_ = {token, panel.row};
    }
    while (packer.left() > 0) packer.pack();
  }

  // Lines of y that are written soon. Of rows far apart, L1 would not keep them.
  static constexpr int64_t most_stride = 256;
  [[gnu::always_inline]] static inline void prefetch(cpu::Strided<float> y, int64_t step) {
    for (int64_t t = 2 * step; t < 2 * step + 2 && t < Tile::tokens; ++t) {
      __builtin_prefetch(y.at(t), 1, 3);
      __builtin_prefetch(y.at(t) + tile_rows, 1, 3);
    }
  }

  // The activation of some tokens of a tile, and their place in the x of the next product.
  [[gnu::noinline]] void finish_tokens(int64_t begin, int64_t count) {
    const int64_t end = begin + count < Tile::tokens ? begin + count : Tile::tokens;
    p_.packed_y.activate(tile_ + begin * Tile::rows, (end - begin) * Tile::rows);
    const int64_t all = cpu::rounded_up(p_.tokens, Tile::tokens);
    const int64_t k = finished_.row / depth * depth;
    const int64_t padded = cpu::rounded_up(p_.rows - k < depth ? p_.rows - k : depth, Tile::inputs);
    uint16_t* const to =
        p_.packed_y.to + k * all + finished_.token * padded + (finished_.row - k) * Tile::tokens;
    for (int64_t t = begin; t < end; ++t)
      kernel::store(to + t * Tile::inputs,
                    Bf16<isa>::in_turn(V::load(tile_ + t * Tile::rows),
                                       V::load(tile_ + t * Tile::rows + tile_rows)));
    if (end == Tile::tokens) finished_.token = -1;
  }

  SomeTiles& tiles_;
  const cpu::Tiles& p_;
  cpu::Range rows_, panels_;
  uint16_t* w_[2];
  float *tile_, *sums_;
  struct {
    int64_t token = -1, row = 0;
  } finished_;
};

}  // namespace
}  // namespace deltasane::kernel
