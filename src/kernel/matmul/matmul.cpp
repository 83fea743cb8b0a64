#include "kernel/matmul/matmul.h"

#include <algorithm>
#include <vector>

#include "kernel/isa_dispatch.h"
#include "kernel/matmul/cpu/tiled.h"
#include "kernel/matmul/low_bits/block.h"
#include "kernel/matmul/low_bits/input_squares.h"
#include "kernel/matmul/pieces.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

bool few(const Matmul& p) { return p.x.shape[0] <= matmul_few_tokens; }

// The weights of all products once through all threads.
void multiply_few(std::span<const Matmul> products, const Cpu& cpu) {
  MatmulPieces pieces(cpu.isa, cpu.threads.size());
  pieces.begin(products);
  cpu.threads.parallel(pieces.count(), [&](int64_t piece) { pieces.run(piece); });
}

template <Isa isa, WeightType type>
void multiply_many(const Matmul& p, ThreadPool& threads) {
  multiply_tiled<isa, type, cpu::Layout::row_major, cpu::Layout::row_major>(
      {{p.x.data, p.x.stride[0]},
       p.w.rows(),
       p.w.in(),
       p.x.shape[0],
       p.w.out(),
       p.w.in(),
       {p.y.data, p.y.stride[0]},
       sum_of(p)},
      threads);
}

template <Isa isa, WeightType type>
void multiply_many_quantized(const Matmul& p, ThreadPool& threads) {
  if constexpr (cpu::rounds_to_bf16(isa, type)) return multiply_many<isa, type>(p, threads);
  const int64_t tokens = p.x.shape[0], in = p.w.in();
  constexpr cpu::Q8Layout layout = cpu::q8_layout(isa);
  const Buffer memory(uint64_t(cpu::q8_token_bytes(tokens, in)));
  const cpu::Q8Product product{p.w.rows(),
                               p.w.out(),
                               in,
                               q8_tokens_in(memory.data(), tokens, in, layout),
                               {p.y.data, p.y.stride[0]},
                               sum_of(p)};
  const int64_t token_groups = pieces_of(tokens, cpu::q8_tokens);
  threads.parallel(token_groups, [&](int64_t group) {
    cpu::quantize_tokens<isa>({p.x.data, p.x.stride[0]}, in, group, product.x);
  });
  const int64_t panels = pieces_of(p.w.out(), cpu::q8_panel_rows(isa));
  const int64_t parts = token_parts(threads, panels, tokens / 64);
  threads.parallel(panels * parts, [&](int64_t piece) {
    const int64_t panel = piece / parts, part = piece % parts;
    constexpr int factors = type == WeightType::q8 ? 1 : low_bit_factors(type);
    const Buffer scratch(uint64_t(cpu::q8_panel_bytes(isa, in, factors)));
    const cpu::Range some{part * token_groups / parts, (part + 1) * token_groups / parts};
    if constexpr (type == WeightType::q8)
      cpu::q8_many_tokens<isa>(product, panel, some, scratch.data());
    else
      cpu::low_bit_many_tokens<isa, type>(product, panel, some, scratch.data());
  });
}

template <Isa isa>
void multiply_many(const Matmul& p, ThreadPool& threads) {
  switch (p.w.type()) {
    case WeightType::f32:
      return multiply_many<isa, WeightType::f32>(p, threads);
    case WeightType::f16:
      return multiply_many<isa, WeightType::f16>(p, threads);
    case WeightType::bf16:
      return multiply_many<isa, WeightType::bf16>(p, threads);
    case WeightType::q8:
      return multiply_many_quantized<isa, WeightType::q8>(p, threads);
    case WeightType::q6_k:
      return multiply_many_quantized<isa, WeightType::q6_k>(p, threads);
    case WeightType::q5_k:
      return multiply_many_quantized<isa, WeightType::q5_k>(p, threads);
    case WeightType::q4_k:
      return multiply_many_quantized<isa, WeightType::q4_k>(p, threads);
    case WeightType::q4:
      return multiply_many_quantized<isa, WeightType::q4>(p, threads);
  }
}

}  // namespace

void matmul_all(std::span<const Matmul> all, const Cpu& cpu) {
  for (const Matmul& one : all) {
    expect_product(one);
    if (cpu.inputs) cpu.inputs->add(one.w, one.x);
  }
  if (std::all_of(all.begin(), all.end(), few)) return multiply_few(all, cpu);
  for (const Matmul& one : all) {
    if (few(one))
      multiply_few({&one, 1}, cpu);
    else
      with_isa(cpu.isa, [&]<Isa isa>() { multiply_many<isa>(one, cpu.threads); });
  }
}

void matmul(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu, Store store) {
  const Matmul one[] = {{w, x, y, store}};
  matmul_all(one, cpu);
}

void matmul_few_alike(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu) {
  if (x.shape[0] != 1) return matmul(w, x, y, cpu);
  Tensor<float> twice({2, w.in()}), both({2, w.out()});
  for (int64_t i = 0; i < 2; ++i) std::copy_n(x.at(0), w.in(), twice.view().at(i));
  matmul(w, twice.view(), both.view(), cpu);
  std::copy_n(both.data(), w.out(), y.at(0));
}

}  // namespace deltasane::kernel
