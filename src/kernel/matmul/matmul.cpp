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
  for (const Matmul& one : products)
    if (one.activation) activate(*one.activation, one.y, cpu);
}

constexpr cpu::Layout row_major = cpu::Layout::row_major;

Finish finish_of(const Matmul& p, Isa isa) {
  if (!p.activation) return {};
  return [activation = *p.activation, isa](cpu::Strided<float> y, int64_t tokens, int64_t rows) {
    for (int64_t t = 0; t < tokens; ++t) activate_row(activation, y.at(t), rows, isa);
  };
}

TiledProduct tiled_product(const Matmul& p, Isa isa, BufferPool* buffers) {
  TiledProduct product{
      {p.x.data, p.x.stride[0]}, p.w.rows(), p.w.in(), p.x.shape[0], p.w.out(), p.w.in(),
      {p.y.data, p.y.stride[0]}, sum_of(p)};
  product.finish = finish_of(p, isa);
  product.rows_of_x = p.rows_of_x;
  product.buffers = buffers;
  if (p.y_columns) {
    product.y.stride = p.y_columns;
    product.columns = {p.y_columns, p.y_columns * p.x.shape[0]};
  }
  return product;
}

template <Isa isa, WeightType type>
TwoPhases quantized_phases(const Matmul& p, const ThreadPool& threads, int64_t rows_beside) {
  const int64_t tokens = p.x.shape[0], in = p.w.in();
  constexpr cpu::Q8Layout layout = cpu::q8_layout(isa);
  const auto memory = std::make_shared<Buffer>(uint64_t(cpu::q8_token_bytes(tokens, in)));
  const cpu::Q8Product product{p.w.rows(),
                               p.w.out(),
                               in,
                               q8_tokens_in(memory->data(), tokens, in, layout),
                               {p.y.data, p.y.stride[0]},
                               sum_of(p)};
  const cpu::Strided<const float> x{p.x.data, p.x.stride[0]};
  const int64_t token_groups = pieces_of(tokens, cpu::q8_tokens);
  const int64_t panels = pieces_of(p.w.out(), cpu::q8_panel_rows(isa));
  const int64_t parts =
      token_parts(threads, panels + pieces_of(rows_beside, cpu::q8_panel_rows(isa)), tokens / 64);
  const Finish finish = finish_of(p, isa);
  const RowsOfX rows_of_x = p.rows_of_x;
  return {{{token_groups,
            [=](int64_t group) {
              const int64_t first = group * cpu::q8_tokens;
              with_rows(rows_of_x, {x.at(first), x.stride}, first,
                        std::min(cpu::q8_tokens, tokens - first), in,
                        [&](cpu::Strided<const float> some) {
                          cpu::quantize_tokens<isa>(some, in, group, product.x);
                        });
            }},
           {panels * parts, [=](int64_t piece) {
              const int64_t panel = piece / parts, part = piece % parts;
              constexpr int factors = type == WeightType::q8 ? 1 : low_bit_factors(type);
              const Buffer scratch(uint64_t(cpu::q8_panel_bytes(isa, in, factors)));
              const cpu::Range some{part * token_groups / parts, (part + 1) * token_groups / parts};
              if constexpr (type == WeightType::q8)
                cpu::q8_many_tokens<isa>(product, panel, some, scratch.data());
              else
                cpu::low_bit_many_tokens<isa, type>(product, panel, some, scratch.data());
              constexpr int64_t rows = cpu::q8_panel_rows(isa);
              finish_piece(finish, product.y, {tokens, product.rows},
                           {some.begin * cpu::q8_tokens, some.end * cpu::q8_tokens},
                           {panel * rows, (panel + 1) * rows});
              static_cast<void>(memory);  // kept until the last piece
            }}}};
}

// Up to pass_tokens, unless quantized.
template <Isa isa, WeightType type>
TwoPhases phases_of(const Matmul& p, const Cpu& cpu, int64_t rows_beside) {
  if constexpr (has_tiles(isa) && !is_quantized(type))
    if (cpu::is_small(isa, type, p.w.out(), p.w.in()))
      return small_phases<isa, type>(tiled_product(p, isa, cpu.buffers), cpu.threads);
  if constexpr (is_quantized(type) && !cpu::rounds_to_bf16(isa, type))
    return quantized_phases<isa, type>(p, cpu.threads, rows_beside);
  else
    return tiled_phases<isa, type, row_major, row_major>(tiled_product(p, isa, cpu.buffers),
                                                         cpu.threads, rows_beside);
}

template <class Body>
auto with_type(WeightType type, const Body& body) {
  switch (type) {
    case WeightType::f32:
      return body.template operator()<WeightType::f32>();
    case WeightType::f16:
      return body.template operator()<WeightType::f16>();
    case WeightType::bf16:
      return body.template operator()<WeightType::bf16>();
    case WeightType::q8:
      return body.template operator()<WeightType::q8>();
    case WeightType::q6_k:
      return body.template operator()<WeightType::q6_k>();
    case WeightType::q5_k:
      return body.template operator()<WeightType::q5_k>();
    case WeightType::q4_k:
      return body.template operator()<WeightType::q4_k>();
    case WeightType::q4:
      return body.template operator()<WeightType::q4>();
  }
  __builtin_unreachable();
}

template <Isa isa>
void multiply_many(const Matmul& p, const Cpu& cpu) {
  with_type(p.w.type(), [&]<WeightType type>() {
    constexpr bool in_8_bits = is_quantized(type) && !cpu::rounds_to_bf16(isa, type);
    if (in_8_bits || cpu::is_small(isa, type, p.w.out(), p.w.in())) {
      const TwoPhases phases[] = {phases_of<isa, type>(p, cpu, 0)};
      run_together(phases, cpu.threads);
    } else if constexpr (!in_8_bits) {
      multiply_tiled<isa, type, row_major, row_major>(tiled_product(p, isa, cpu.buffers),
                                                      cpu.threads);
    }
  });
}

// Pieces of 16-bit weights take longest, and come first.
template <Isa isa>
void multiply_many_together(std::span<const Matmul> all, const Cpu& cpu) {
  int64_t rows = 0;
  for (const Matmul& one : all) rows += one.w.out();
  std::vector<TwoPhases> products;
  for (const bool quantized : {false, true})
    for (const Matmul& one : all)
      if (is_quantized(one.w.type()) == quantized)
        products.push_back(with_type(one.w.type(), [&]<WeightType type>() {
          return phases_of<isa, type>(one, cpu, rows - one.w.out());
        }));
  run_together(products, cpu.threads);
}

// Many threads would wait for each other twice for each product. Few threads find each x in their caches
// if they prepare it just before they use it.
bool are_run_together(std::span<const Matmul> all, const ThreadPool& threads) {
  constexpr int many_threads = 4;
  return all.size() > 1 && threads.size() >= many_threads &&
         std::all_of(all.begin(), all.end(),
                     [](const Matmul& one) { return !few(one) && one.x.shape[0] <= pass_tokens; });
}

}  // namespace

void matmul_all(std::span<const Matmul> all, const Cpu& cpu) {
  for (const Matmul& one : all) {
    expect_product(one);
    require(!one.rows_of_x || !(few(one) || cpu.inputs), "rows of x are computed for many tokens");
    require(one.y_columns == 0 ||
                (multiplies_in_columns(one.w, one.x.shape[0], cpu.isa) && !one.activation &&
                 one.y_columns % cpu::tile_side == 0 && one.w.out() % one.y_columns == 0),
            "y in blocks of columns is for whole blocks and products that write it so");
    if (cpu.inputs) cpu.inputs->add(one.w, one.x);
  }
  if (std::all_of(all.begin(), all.end(), few)) return multiply_few(all, cpu);
  if (are_run_together(all, cpu.threads))
    return with_isa(cpu.isa, [&]<Isa isa>() { multiply_many_together<isa>(all, cpu); });
  for (const Matmul& one : all) {
    if (few(one))
      multiply_few({&one, 1}, cpu);
    else
      with_isa(cpu.isa, [&]<Isa isa>() { multiply_many<isa>(one, cpu); });
  }
}

void matmul_chain(const Matmul& first, const Matmul& second, const Cpu& cpu) {
  expect_product(first);
  expect_product(second);
  require(first.activation && first.store == Store::overwrite && !second.rows_of_x &&
              second.x.data == first.y.data && second.x.shape == first.y.shape,
          "a chain has the first product's y, activated, as the second one's x");
  const int64_t tokens = first.x.shape[0];
  const bool packs = multiplies_bf16(first.w.type(), tokens, cpu.isa) &&
                     multiplies_bf16(second.w.type(), tokens, cpu.isa);
  if (!packs || tokens > pass_tokens || cpu.inputs) {
    matmul_all({&first, 1}, cpu);
    return matmul_all({&second, 1}, cpu);
  }
  with_isa(cpu.isa, [&]<Isa isa>() {
    if constexpr (has_tiles(isa)) {
      const auto between = buffer_of(
          cpu.buffers,
          uint64_t(cpu::packed_floats(isa, WeightType::q8, tokens, second.w.in())) * sizeof(float));
      auto* const packed = reinterpret_cast<uint16_t*>(between->data());
      const auto run = [&](const Matmul& one, const auto& set) {
        with_type(one.w.type(), [&]<WeightType type>() {
          if constexpr (is_quantized(type)) {
            TiledProduct product = tiled_product(one, isa, cpu.buffers);
            set(product);
            multiply_tiled<isa, type, row_major, row_major>(product, cpu.threads);
          }
        });
      };
      run(first, [&](TiledProduct& product) {
        product.finish = {};
        product.packed_y = {packed, row_activation(*first.activation, isa)};
      });
      run(second, [&](TiledProduct& product) {
        product.packed_x = reinterpret_cast<const float*>(packed);
      });
    }
  });
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
