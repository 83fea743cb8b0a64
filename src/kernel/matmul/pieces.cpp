#include "kernel/matmul/pieces.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/cpu/expect_matrix.h"
#include "kernel/matmul/cpu/tiled.h"

namespace deltasane::kernel {
namespace {

bool is_quantized(const Weights& w) { return is_quantized(w.type()); }

// One token is read in place, if its inputs are whole steps of the kernels.
bool is_in_place(const Matmul& one, Isa isa) {
  return one.x.shape[0] == 1 && one.w.in() % cpu::dot_step(isa) == 0;
}

// One token is split into f16 numbers, where these are multiplied faster than floats.
bool is_split(const Matmul& one, Isa isa) {
  return cpu::has_half_products(isa) && one.w.type() == WeightType::f16 && one.x.shape[0] == 1 &&
         one.w.in() % cpu::half_step == 0;
}

// Of x, prepared for the kernels.
uint64_t bytes_for(const Matmul& one, Isa isa) {
  const int64_t tokens = one.x.shape[0], in = one.w.in();
  if (is_split(one, isa))
    return uint64_t(cpu::rounded_up(2 * in * int64_t(sizeof(uint16_t)), int64_t(Buffer::alignment)));
  if (!is_quantized(one.w) && is_in_place(one, isa)) return 0;
  const int64_t bytes = is_quantized(one.w)
                            ? cpu::q8_token_bytes(tokens, in)
                            : cpu::interleaved_floats(isa, tokens, in) * int64_t(sizeof(float));
  return uint64_t(cpu::rounded_up(bytes, int64_t(Buffer::alignment)));
}

}  // namespace

void expect_product(const Matmul& product) {
  expect_matrix("x", product.x);
  expect_matrix("y", product.y);
  const int64_t tokens = product.x.shape[0];
  expect_shape("x", product.x, {tokens, product.w.in()});
  expect_shape("y", product.y, {tokens, product.w.out()});
}

int64_t MatmulPieces::Part::rows() const { return is_quantized(*w) ? q8_groups(w->out()) : w->out(); }

void MatmulPieces::begin(std::span<const Matmul> products) {
  uint64_t bytes = 0;
  for (const Matmul& one : products) bytes += bytes_for(one, isa_);
  if (bytes > memory_.size()) memory_ = Buffer(bytes);
  parts_.clear();
  std::byte* next = memory_.data();
  for (const Matmul& one : products) {
    prepare(one, next);
    next += bytes_for(one, isa_);
  }
  cut();
}

void MatmulPieces::prepare(const Matmul& one, std::byte* memory) {
  expect_product(one);
  const int64_t tokens = one.x.shape[0], in = one.w.in();
  require(tokens <= matmul_few_tokens, "pieces are for few tokens");
  if (tokens == 0) return;
  const cpu::Strided<const float> x{one.x.data, one.x.stride[0]};
  Part part{&one.w,
            tokens,
            one.x.data,
            nullptr,
            0,
            {nullptr, one.w.out(), in, {}, {one.y.data, one.y.stride[0]}, sum_of(one)}};
  with_isa(isa_, [&]<Isa isa>() {
    if (is_quantized(one.w)) {
      part.q8.w = one.w.rows();
      part.q8.x = q8_tokens_in(memory, tokens, in, cpu::Q8Layout::rows);
      for (int64_t group = 0; group < pieces_of(tokens, cpu::q8_tokens); ++group)
        cpu::quantize_tokens<isa>({x.at(group * cpu::q8_tokens), x.stride}, in, group, part.q8.x);
    } else if (is_split(one, isa)) {
      auto* const pairs = reinterpret_cast<uint16_t*>(memory);
      part.pair_scale = cpu::split_token<isa>(one.x.data, in, pairs);
      part.pairs = part.pair_scale > 0 ? pairs : nullptr;
    } else if (!is_in_place(one, isa)) {
      auto* const interleaved = reinterpret_cast<float*>(memory);
      cpu::interleave_tokens<isa>(x, tokens, in, interleaved);
      part.interleaved = interleaved;
    }
  });
  parts_.push_back(part);
}

// Large pieces first, for long memory streams; then ever smaller ones, so that all threads finish
// at about the same time. Without divisions, which would take as long as a small piece. Threads
// that have the same products compute the same pieces.
void MatmulPieces::cut() {
  constexpr double least = 16 << 10, most = 192 << 10;  // bytes
  pieces_.clear();
  double left = 0;
  for (const Part& part : parts_) left += double(part.w->bytes());
  const double share = 0.25 / double(threads_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t rows = parts_[i].rows();
    const double row_bytes = double(parts_[i].w->bytes()) / double(rows), inverse = 1 / row_bytes;
    for (int64_t row = 0; row < rows;) {
      const double bytes = std::clamp(left * share, least, most);
      const int64_t end = std::min(rows, row + std::max<int64_t>(1, int64_t(bytes * inverse)));
      pieces_.push_back({i, {row, end}});
      left -= double(end - row) * row_bytes;
      row = end;
    }
  }
}

void MatmulPieces::run(int64_t piece) const {
  const auto& [index, rows] = pieces_[size_t(piece)];
  const Part& p = parts_[index];
  with_isa(isa_, [&]<Isa isa>() {
    const auto dots = [&]<WeightType type>() {
      cpu::dot_rows<isa, type>(p.w->rows(), rows, p.q8.in, p.interleaved, p.tokens, p.q8.y,
                               p.q8.sum);
    };
    switch (p.w->type()) {
      case WeightType::f32:
        return dots.template operator()<WeightType::f32>();
      case WeightType::f16:
        if (p.pairs)
          return cpu::half_rows<isa>(p.w->rows(), rows, p.q8.in, p.pairs, p.pair_scale,
                                     p.q8.y.first, p.q8.sum);
        return dots.template operator()<WeightType::f16>();
      case WeightType::bf16:
        return dots.template operator()<WeightType::bf16>();
      case WeightType::q8:
        return cpu::q8_few_tokens<isa>(p.q8, rows);
      case WeightType::q6_k:
        return cpu::low_bit_few_tokens<isa, WeightType::q6_k>(p.q8, rows);
      case WeightType::q5_k:
        return cpu::low_bit_few_tokens<isa, WeightType::q5_k>(p.q8, rows);
      case WeightType::q4_k:
        return cpu::low_bit_few_tokens<isa, WeightType::q4_k>(p.q8, rows);
      case WeightType::q4:
        return cpu::low_bit_few_tokens<isa, WeightType::q4>(p.q8, rows);
    }
  });
}

}  // namespace deltasane::kernel
