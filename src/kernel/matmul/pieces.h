// Products of few tokens, cut into pieces that the threads of a parallel region divide among
// themselves.
//
// Every thread may have its own MatmulPieces of the same products: each then prepares x for the
// kernels itself, which takes less time than to wait for another thread.
#pragma once

#include <vector>

#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/matmul.h"
#include "tensor/buffer.h"

namespace deltasane::kernel {

void expect_product(const Matmul& product);

inline cpu::Sum sum_of(const Matmul& product) {
  return product.store == Store::add ? cpu::Sum::add : cpu::Sum::start;
}

// x in 8 bits, in q8_token_bytes of memory.
inline cpu::Q8Tokens q8_tokens_in(std::byte* memory, int64_t tokens, int64_t in,
                                  cpu::Q8Layout layout) {
  const int64_t numbers = cpu::rounded_up(tokens, cpu::q8_tokens) * q8_blocks(in);
  auto* const scale = reinterpret_cast<float*>(memory + numbers * q8_columns);
  return {reinterpret_cast<int8_t*>(memory), scale,
          reinterpret_cast<cpu::HalfSums*>(scale + numbers), tokens, layout};
}

class MatmulPieces {
 public:
  // threads: how many will share the pieces.
  MatmulPieces(Isa isa, int threads) : isa_(isa), threads_(threads) {}

  // Up to matmul_few_tokens tokens each. Reads every x; all must stay unchanged until the last
  // run().
  void begin(std::span<const Matmul> products);

  int64_t count() const { return int64_t(pieces_.size()); }
  void run(int64_t piece) const;

 private:
  struct Part {
    const Weights* w;
    int64_t tokens;
    const float* interleaved;  // x, unless the weights are quantized
    const uint16_t* pairs;     // x as f16 numbers, or null; and their scale
    float pair_scale;
    cpu::Q8Product q8;         // y and sum for all types, w and x for quantized ones
    int64_t rows() const;      // or groups of rows
  };
  struct Piece {
    size_t part;
    cpu::Range rows;
  };
  void prepare(const Matmul& one, std::byte* memory);
  void cut();

  Isa isa_;
  int threads_;
  std::vector<Part> parts_;
  std::vector<Piece> pieces_;
  Buffer memory_;
};

}  // namespace deltasane::kernel
