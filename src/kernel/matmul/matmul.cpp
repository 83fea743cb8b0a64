#include "kernel/matmul/matmul.h"

#include <algorithm>
#include <optional>
#include <vector>

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

  bool few() const { return tokens <= matmul_few_tokens; }
  bool is_q8() const { return w.type() == WeightType::q8; }
};

// x in 8 bits, and the memory it is in.
struct Q8Memory {
  Buffer memory;
  cpu::Q8Product product;

  Q8Memory(const Product& p, bool strips)
      : memory(uint64_t(cpu::q8_token_bytes(p.tokens, p.w.in()))), product{p.w.blocks(), p.w.out(),
                                                                           p.w.in(),     {},
                                                                           p.y,          p.sum} {
    const int64_t numbers = cpu::rounded_up(p.tokens, cpu::q8_tokens) * q8_blocks(p.w.in());
    auto* const scale = reinterpret_cast<float*>(memory.data() + numbers * q8_columns);
    product.x = {reinterpret_cast<int8_t*>(memory.data()), scale,
                 reinterpret_cast<int32_t*>(scale + numbers), p.tokens, strips};
  }
};

// Few tokens: a product in pieces of whole rows, or groups of rows, which any thread may take.
template <Isa isa>
class FewTokens {
 public:
  FewTokens(const Product& product, int64_t piece_bytes) : p_(product) {
    const int64_t in = p_.w.in();
    if (p_.is_q8()) {
      q8_.emplace(p_, false);
      for (int64_t group = 0; group < pieces_of(p_.tokens, cpu::q8_tokens); ++group)
        cpu::quantize_tokens<isa>(p_.x, in, group, q8_->product.x);
    } else {
      laid_ = Buffer(uint64_t(cpu::laid_floats(isa, p_.tokens, in)) * sizeof(float));
      cpu::lay_tokens<isa>(p_.x, p_.tokens, in, laid());
    }
    rows_ = p_.is_q8() ? q8_groups(p_.w.out()) : p_.w.out();
    together_ = std::max<int64_t>(1, piece_bytes * rows_ / int64_t(p_.w.bytes()));
  }

  int64_t pieces() const { return pieces_of(rows_, together_); }

  void run(int64_t piece) const {
    const Range range{piece * together_, std::min(rows_, (piece + 1) * together_)};
    switch (p_.w.type()) {
      case WeightType::f32:
        return dots<WeightType::f32>(range);
      case WeightType::f16:
        return dots<WeightType::f16>(range);
      case WeightType::bf16:
        return dots<WeightType::bf16>(range);
      case WeightType::q8:
        return cpu::q8_few_tokens<isa>(q8_->product, range);
    }
  }

 private:
  float* laid() const { return reinterpret_cast<float*>(laid_.data()); }
  template <WeightType type>
  void dots(Range range) const {
    cpu::dot_rows<isa, type>(p_.w.rows(), range, p_.w.in(), laid(), p_.tokens, p_.y, p_.sum);
  }

  const Product& p_;
  int64_t rows_, together_;
  Buffer laid_;
  std::optional<Q8Memory> q8_;
};

// The weights of all products once through all threads. Pieces are large enough to hide the
// hand-over and to let the memory flow, and small enough that the last does not keep others
// waiting.
template <Isa isa>
void multiply_few(const std::vector<Product>& products, ThreadPool& threads) {
  int64_t bytes = 0;
  for (const Product& p : products)
    if (p.few()) bytes += int64_t(p.w.bytes());
  const int64_t piece_bytes =
      std::clamp<int64_t>(bytes / (8 * threads.size()), int64_t{16} << 10, int64_t{192} << 10);
  std::vector<FewTokens<isa>> parts;
  std::vector<int64_t> ends;  // one past the last piece of each
  for (const Product& p : products)
    if (p.few()) {
      parts.emplace_back(p, piece_bytes);
      ends.push_back((ends.empty() ? 0 : ends.back()) + parts.back().pieces());
    }
  if (parts.empty()) return;
  threads.parallel(ends.back(), [&](int64_t piece) {
    const auto part = size_t(std::upper_bound(ends.begin(), ends.end(), piece) - ends.begin());
    parts[part].run(piece - (part == 0 ? 0 : ends[part - 1]));
  });
}

template <Isa isa>
void multiply_many_q8(const Product& p, ThreadPool& threads) {
  const Q8Memory q8(p, has_matrices(isa));
  const int64_t token_groups = pieces_of(p.tokens, cpu::q8_tokens);
  threads.parallel(token_groups, [&](int64_t group) {
    cpu::quantize_tokens<isa>(p.x, p.w.in(), group, q8.product.x);
  });
  const int64_t panels = pieces_of(p.w.out(), cpu::q8_panel_rows(isa));
  const int64_t parts = token_parts(threads, panels, p.tokens / 64);
  threads.parallel(panels * parts, [&](int64_t piece) {
    const int64_t panel = piece / parts, part = piece % parts;
    const Buffer scratch(uint64_t(cpu::q8_panel_bytes(isa, p.w.in())));
    cpu::q8_many_tokens<isa>(q8.product, panel,
                             {part * token_groups / parts, (part + 1) * token_groups / parts},
                             scratch.data());
  });
}

template <Isa isa, WeightType type>
void multiply_many(const Product& p, ThreadPool& threads) {
  multiply_tiled<isa, type, cpu::Lie::rows, cpu::Lie::rows>(
      {p.x, p.w.rows(), p.w.in(), p.tokens, p.w.out(), p.w.in(), p.y, p.sum}, threads);
}

template <Isa isa>
void multiply_many(const Product& p, ThreadPool& threads) {
  switch (p.w.type()) {
    case WeightType::f32:
      return multiply_many<isa, WeightType::f32>(p, threads);
    case WeightType::f16:
      return multiply_many<isa, WeightType::f16>(p, threads);
    case WeightType::bf16:
      return multiply_many<isa, WeightType::bf16>(p, threads);
    case WeightType::q8:
      return multiply_many_q8<isa>(p, threads);
  }
}

}  // namespace

void matmul_all(std::span<const Matmul> all, const Cpu& cpu) {
  std::vector<Product> products;
  for (const Matmul& one : all) {
    expect_lines("x", one.x);
    expect_lines("y", one.y);
    const int64_t tokens = one.x.shape[0];
    expect_shape("x", one.x, {tokens, one.w.in()});
    expect_shape("y", one.y, {tokens, one.w.out()});
    if (tokens > 0)
      products.push_back({one.w,
                          {one.x.data, one.x.stride[0]},
                          {one.y.data, one.y.stride[0]},
                          tokens,
                          one.store == Store::add ? Sum::add : Sum::start});
  }
  with_isa(cpu.isa, [&]<Isa isa>() {
    multiply_few<isa>(products, cpu.threads);
    for (const Product& p : products)
      if (!p.few()) multiply_many<isa>(p, cpu.threads);
  });
}

void matmul(const Weights& w, View<const float> x, View<float> y, const Cpu& cpu, Store store) {
  const Matmul one[] = {{w, x, y, store}};
  matmul_all(one, cpu);
}

}  // namespace deltasane::kernel
