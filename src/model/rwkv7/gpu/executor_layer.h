// The steps of block.h on a block of tokens in a GPU's stream. For executor.cpp only.
//
// Up to 128 rows of single tokens, one kernel has all from the second factors of the low-rank pairs
// to the output matrix; up to 32, heads of each may read these factors too (docs/gpu-kernels.md).
#pragma once

#include <initializer_list>
#include <span>
#include <type_traits>

#include "kernel/matmul/grouped/product.h"
#include "model/rwkv7/block.h"
#include "model/rwkv7/gpu/executor.h"

namespace deltasane {

template <class Real>
class GpuExecutor<Real>::Layer {
 public:
  Layer(GpuExecutor& executor, int64_t index, const TokenBlock& block)
      : e_(executor),
        ws_(executor.ws),
        sizes_(executor.weights_.sizes),
        w_(executor.weights_.layers[size_t(index)]),
        m_(executor.weights_.matrices[size_t(index)]),
        index_(index),
        block_(block),
        rows_(block.rows.rows()),
        numbers_(rows_ * sizes_.channels),
        heads_are_fused_(block.many() && rows_ <= most_fused_heads &&
                         executor.weights_.has_fused_norms()),
        heads_have_up_(heads_are_fused_ && rows_ <= most_fused_ups && !is_tall() &&
                       sizes_.low(false) <= rwkv7::StepHeads<Real>::most_low) {}

  bool is_first_layer() const { return index_ == 0; }
  void norm_shift(rwkv7::Half half);
  void fork();
  void join();
  void project(std::span<const rwkv7::Projection> all);
  void low_rank(std::span<const rwkv7::LowRank> pairs);
  void tau();
  template <class Body>
  void heads(const Body& body) {
    if (heads_are_fused_) return step_heads();
    body(*this);
  }
  void store_v_first();
  void time_mix_inputs();
  void recurrence();
  void time_mix_output();
  void add_output();
  void hidden(kernel::Activation activation);
  void add_hidden();
  void store_shift(rwkv7::Half) {}  // norm_shift has

 private:
  static constexpr int64_t most_fused_ups = 32, most_fused_heads = 128;  // rows
  static constexpr int64_t most_grouped = 16, most_tall = GpuWorkspace<Real>::most_tall;
  // Up to so many rows in bf16 all products are ours (kernel/matmul/grouped/), not the library's: they
  // begin while the kernel before ends, and have what follows them.
  static constexpr bool can_group = std::is_same_v<Real, bf16>;
  bool are_grouped() const {
    if (e_.weights_.are_quantized()) return rows_ <= most_rows_of_blocks;
    return can_group && block_.many() && rows_ <= most_grouped;
  }
  // Up to most_tall rows they are ours too, with tiles of more rows.
  bool is_tall() const {
    return can_group && block_.many() && !e_.weights_.are_quantized() && rows_ > most_grouped &&
           rows_ <= most_tall && sizes_.feed_forward % 32 == 0;
  }
  // x += a b', by enough blocks for some 128 multiprocessors: where a block for each 32 columns is too
  // few, the inputs are divided, and the next norm adds up the sums.
  void add_tall(const Real* a, const kernel::cuda::GpuMatrix<Real>& b, int64_t inner) {
    if constexpr (can_group) {
      constexpr int64_t wanted = 128, most = GpuWorkspace<Real>::most_parts;
      const int64_t blocks = sizes_.channels / 32;
      const int splits = int(std::clamp((wanted + blocks / 2) / blocks, int64_t{1}, most));
      kernel::cuda::GroupedProducts op{.rows = rows_, .overlaps = true};
      if (splits == 1)
        op.add({a, b, sizes_.channels, inner, nullptr, ws_.x.data(), std::nullopt, true});
      else
        op.add({a, b, sizes_.channels, inner, nullptr, ws_.parts.data()}), e_.added_ = splits;
      kernel::cuda::multiply_tall(op, splits, *e_.gpu);
    }
  }
  template <class Out>
  void multiply(const Real* a, const kernel::cuda::GpuMatrix<Real>& b, Out* c, int64_t columns,
                int64_t inner, bool add = false) {
    e_.multiply(a, b, c, rows_, columns, inner, add, e_.expanded_);
  }
  void multiply_grouped(std::initializer_list<kernel::cuda::GroupedProducts::One> all) {
    kernel::cuda::GroupedProducts op{.rows = rows_, .overlaps = true};
    for (const auto& one : all) op.add(one);
    kernel::cuda::multiply_grouped(op, *e_.gpu);
  }
  Real* mix(rwkv7::Mix which) const;
  // Steps between fork and join that have a stream of their own.
  bool forks() const { return !e_.branches_.empty() && !is_tall(); }
  bool uses(rwkv7::LowRank::Name name) const {  // of these streams: the kernels of low_rank and tau
    if constexpr (!can_group) return true;
    const bool has_tau = e_.sane_.kind != SaneKind::none && block_.chunks > 0;
    return name == rwkv7::LowRank::g || (name == rwkv7::LowRank::v && has_tau);
  }
  ProductStream& branch(const rwkv7::LowRank& pair) {
    return forks() ? e_.branches_[size_t(pair.name)] : e_.main_;
  }
  void own_taus(float* tau, const Gpu& gpu);
  void step_heads();
  Real* r() const { return ws_.rkv.data(); }
  Real* k() const { return r() + numbers_; }
  Real* v() const { return k() + numbers_; }

  GpuExecutor& e_;
  GpuWorkspace<Real>& ws_;
  const rwkv7::LayerSizes& sizes_;
  const rwkv7::LayerWeights<Real>& w_;
  const GpuLayerMatrices<Real>& m_;
  int64_t index_;
  const TokenBlock& block_;
  int64_t rows_, numbers_;  // numbers: of (rows, C)
  bool heads_are_fused_, heads_have_up_;
  const float* tau_ = nullptr;  // (sequences, chunks, H), or (sequences, H); null: no chunk ends
};

template <class Real>
Real* GpuExecutor<Real>::Layer::mix(rwkv7::Mix which) const {
  constexpr int64_t slot[] = {0, 4, 1, 2, 5, 3};  // of r w k v a g among r k v g w a
  return ws_.mixes.data() + slot[size_t(which)] * numbers_;
}

// Branches wait for the executor's own stream ..
template <class Real>
void GpuExecutor<Real>::Layer::fork() {
  for (const rwkv7::LowRank& pair : rwkv7::low_ranks)
    if (uses(pair.name)) branch(pair).wait_for(e_.main_);
}
// .. which then waits for all of them.
template <class Real>
void GpuExecutor<Real>::Layer::join() {
  for (const rwkv7::LowRank& pair : rwkv7::low_ranks)
    if (uses(pair.name)) e_.main_.wait_for(branch(pair));
}

template <class Real>
void GpuExecutor<Real>::Layer::norm_shift(rwkv7::Half half) {
  using rwkv7::Mix;
  const bool of_time = half == rwkv7::Half::time_mix;
  const float* const weight = of_time ? w_.ln1_weight : w_.ln2_weight;
  const float* const bias = of_time ? w_.ln1_bias : w_.ln2_bias;
  const float* const mu_tau = of_time && block_.chunks > 0 ? w_.x_tau : nullptr;
  const float eps = e_.weights_.norms.layer_eps;
  const int64_t shift_at = sizes_.shift_at(index_, of_time ? 0 : 1);
  const auto set_mixes = [&](auto& op) {  // in the order that they lie in
    const float* const mu[] = {
        of_time ? w_.x_r : w_.ffn_x_k, w_.x_k, w_.x_v, w_.x_g, w_.x_w, w_.x_a};
    for (op.mixes = 0; op.mixes < (of_time ? 6 : 1); ++op.mixes)
      op.mu[op.mixes] = mu[op.mixes], op.out[op.mixes] = ws_.mixes.data() + op.mixes * numbers_;
  };
  if (block_.many()) {
    rwkv7::ShiftStates<Real> op{
        block_.states, rows_, sizes_.channels, shift_at, ws_.x.data(), weight, bias, eps};
    set_mixes(op);
    if (mu_tau) op.mu[op.mixes] = mu_tau, op.out[op.mixes++] = ws_.x_tau.data();
    op.parts = ws_.parts.data(), op.added = std::exchange(e_.added_, 0);
    return rwkv7::shift_states(op, *e_.gpu);
  }
  kernel::cuda::NormShift<Real> op{block_.rows, ws_.x.data(), weight, bias, eps};
  float* const shifts = block_.shifts + shift_at * block_.slots;
  op.before = shifts;
  if (!block_.lengths) op.last = shifts;
  set_mixes(op);
  if (mu_tau) {
    op.mu_tau = mu_tau, op.out_tau = ws_.x_tau.data();
    op.position = block_.position, op.chunk = e_.sane_.chunk, op.chunks = block_.chunks;
  }
  kernel::cuda::norm_shift(op, *e_.gpu);
  if (block_.lengths)  // the norm of each sequence's last row
    kernel::cuda::embed({block_.rows.sequences, 1, sizes_.channels}, block_.last_rows,
                        static_cast<const float*>(ws_.x.data()), weight, bias, eps, shifts,
                        *e_.gpu);
}

// All three at once, but for those that become bf16 first.
template <class Real>
void GpuExecutor<Real>::Layer::project(std::span<const rwkv7::Projection> all) {
  using kernel::cuda::Products;
  const int64_t channels = sizes_.channels;
  if (is_tall()) return;  // with the first factors
  if constexpr (can_group)
    if (are_grouped()) {
      const auto one = [&](size_t i) -> kernel::cuda::GroupedProducts::One {
        return {mix(all[i].mix), m_.rkv[i], channels, channels, r() + int64_t(i) * numbers_};
      };
      return multiply_grouped({one(0), one(1), one(2)});
    }
  if (e_.weights_.are_quantized()) {
    for (size_t i = 0; i < all.size(); ++i)
      multiply(mix(all[i].mix), m_.rkv[i], r() + int64_t(i) * numbers_, channels, channels);
    return;
  }
  Products::Product<Real, Real> rkv{Products::Form::nt,   rows_, channels, channels,
                                    mix(all.front().mix), w_.in, r()};
  rkv.count = int64_t(all.size()), rkv.stride_a = rkv.stride_c = numbers_;
  rkv.stride_b = channels * channels;
  e_.main_.products.multiply(rkv);
}

// The first factors follow the matrices of r k v, in the order w a v g; so do their results. In bf16
// all first factors are one kernel and all second ones another; in float each is a product of the
// library, those of w and a a batched one.
template <class Real>
void GpuExecutor<Real>::Layer::low_rank(std::span<const rwkv7::LowRank> pairs) {
  using kernel::cuda::Products;
  using rwkv7::LowRank;
  const int64_t channels = sizes_.channels, rank_wa = sizes_.rank_wa;
  const int64_t rank_v = is_first_layer() ? 0 : sizes_.rank_v;
  struct {
    int64_t first, rank;
    const Real* up;
    Real* out;
  } const places[] = {{0, rank_wa, w_.up_w, nullptr},
                      {rank_wa, rank_wa, w_.up_a, ws_.raw_a.data()},
                      {2 * rank_wa + rank_v, sizes_.rank_g, w_.up_g, ws_.g.data()},
                      {2 * rank_wa, rank_v, w_.up_v, ws_.gate.data()}};
  if constexpr (std::is_same_v<Real, bf16>) {
    kernel::cuda::GroupedProducts down{.rows = rows_}, up{.rows = rows_};
    for (const LowRank& pair : pairs) {
      const auto& at = places[pair.name];
      bf16* const low = ws_.low.data() + rows_ * at.first;
      down.add({mix(pair.mix), m_.down + at.first * channels, at.rank, channels, low, nullptr,
                heads_have_up_ ? std::nullopt : pair.between});
      up.add({low, at.up, channels, at.rank, at.out, at.out ? nullptr : ws_.raw_w.data()});
    }
    if (is_tall()) {
      for (size_t i = 0; i < std::size(rwkv7::projections); ++i)
        down.add({mix(rwkv7::projections[i].mix), m_.rkv[i], channels, channels,
                  r() + int64_t(i) * numbers_});
      down.overlaps = up.overlaps = true;
      kernel::cuda::multiply_tall(down, 1, *e_.gpu);
      if (!heads_have_up_) kernel::cuda::multiply_grouped(up, *e_.gpu);
      return;
    }
    const Gpu& stream = *branch(rwkv7::low_ranks[LowRank::g]).gpu;
    up.overlaps = block_.rows.overlaps();
    down.overlaps = up.overlaps && !forks();
    kernel::cuda::multiply_grouped(down, stream);
    if (!heads_have_up_) kernel::cuda::multiply_grouped(up, stream);
    return;
  }
  for (const LowRank& pair : pairs) {
    const auto& at = places[pair.name];
    const Real* const down = m_.down + at.first * channels;
    Real* const low = ws_.low.data() + rows_ * at.first;
    ProductStream& stream = branch(pair);
    if (pair.name == LowRank::w) {
      Products::Product<Real, Real> wa{Products::Form::nt, rows_, rank_wa, channels,
                                       mix(pair.mix),      down,  low};
      wa.count = 2, wa.stride_a = numbers_, wa.stride_b = rank_wa * channels;
      wa.stride_c = rows_ * rank_wa;
      stream.products.multiply(wa);
      if (!heads_have_up_) branch(rwkv7::low_ranks[LowRank::a]).wait_for(stream);
    } else if (pair.name != LowRank::a) {
      stream.multiply(mix(pair.mix), down, low, rows_, at.rank, channels);
    }
    if (heads_have_up_) continue;
    if (pair.between) kernel::cuda::activate(*pair.between, low, rows_ * at.rank, *stream.gpu);
    if (pair.name == LowRank::w)  // the decay's sum is float
      stream.multiply(low, at.up, ws_.raw_w.data(), rows_, channels, at.rank);
    else
      stream.multiply(low, at.up, at.out, rows_, channels, at.rank);
  }
}

template <class Real>
void GpuExecutor<Real>::Layer::tau() {
  if (e_.sane_.kind == SaneKind::none || block_.chunks == 0) return;
  ProductStream& stream = branch(rwkv7::low_ranks[rwkv7::LowRank::v]);
  const int64_t count = block_.rows.sequences * (block_.many() ? 1 : block_.chunks);
  float* const tau = ws_.tau.data() + index_ * count * sizes_.heads;
  const bool is_trained = e_.sane_.kind == SaneKind::trained;
  if (is_trained)
    stream.multiply(ws_.x_tau.data(), w_.w_tau, ws_.z.data(), count, sizes_.heads, sizes_.channels);
  if (block_.alphas)
    own_taus(tau, *stream.gpu);
  else if (is_trained)
    kernel::cuda::tau_forward(ws_.z.data(), count * sizes_.heads, e_.sane_.alpha, tau, *stream.gpu);
  else
    e_.set_constant_taus();
  tau_ = tau;
}

// With the alphas of the block's sequences.
template <class Real>
void GpuExecutor<Real>::Layer::own_taus(float* tau, const Gpu& gpu) {
  e_.has_constant_taus_ = false;
  const int64_t heads = sizes_.heads;
  const int64_t parts = block_.many() ? 1 : block_.rows.sequences;
  const int64_t rows = block_.many() ? block_.rows.sequences : block_.chunks;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t at = i * rows * heads;
    const float* const z = e_.sane_.kind == SaneKind::trained ? ws_.z.data() + at : nullptr;
    kernel::cuda::tau_forward_per_head(
        z, rows, heads, block_.alphas + (i * sizes_.layers + index_) * heads, tau + at, gpu);
  }
}

template <class Real>
void GpuExecutor<Real>::Layer::step_heads() {
  rwkv7::StepHeads<Real> op{
      block_.states, block_.positions, block_.rows.sequences, w_, sizes_,
      index_, e_.sane_.chunk, e_.weights_.norms.group_eps, ws_.rkv.data(),
      ws_.low.data(), ws_.v_first.data(), tau_, ws_.y.data()};
  if (!heads_have_up_)
    op.up = {ws_.raw_w.data(), ws_.raw_a.data(), ws_.gate.data(), ws_.g.data()};
  rwkv7::step_heads(op, *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::store_v_first() {
  copy_on_gpu(ws_.v_first.data(), v(), uint64_t(numbers_) * sizeof(Real), *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::time_mix_inputs() {
  kernel::cuda::TimeMixInputs<Real> in{};
  in.rows = block_.rows;
  in.raw_w = ws_.raw_w.data(), in.raw_a = ws_.raw_a.data(), in.raw_k = k(), in.raw_v = v();
  in.gate = is_first_layer() ? nullptr : ws_.gate.data();
  in.v_first = is_first_layer() ? nullptr : ws_.v_first.data();
  in.w0 = w_.w0, in.a0 = w_.a0, in.v0 = w_.v0, in.k_k = w_.k_k, in.k_a = w_.k_a;
  in.w = ws_.w.data(), in.a = ws_.a.data(), in.b = ws_.b.data(), in.k = k(), in.v = v();
  in.key_norm = e_.weights_.norms.key;
  kernel::cuda::time_mix_inputs(in, *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::recurrence() {
  if (block_.many()) {
    rwkv7::step_states(
        rwkv7::StepStates<Real>{block_.states, block_.positions, block_.rows.sequences,
                                sizes_.heads, sizes_.memory_at(index_), e_.sane_.chunk, r(), k(),
                                v(), ws_.a.data(), ws_.b.data(), ws_.w.data(), tau_, ws_.y.data()},
        *e_.gpu);
    return;
  }
  kernel::cuda::DeltaRule<Real> op;
  op.batch = block_.rows.sequences, op.time = block_.rows.time, op.heads = sizes_.heads;
  op.position = block_.position, op.chunk = e_.sane_.chunk;
  op.r = r(), op.k = k(), op.v = v(), op.a = ws_.a.data(), op.b = ws_.b.data();
  op.w = ws_.w.data(), op.tau = tau_;
  op.initial = op.final_state =
      block_.memory + (sizes_.memory_at(index_) - sizes_.memory_at(0)) * block_.slots;
  op.y = ws_.y.data(), op.lengths = block_.lengths;
  kernel::cuda::delta_rule(op, e_.scratch_, *e_.gpu);
  if (!block_.follow) return;
  kernel::cuda::AdaptAlphas follow = *block_.follow;
  follow.layer = index_, follow.memory = op.final_state;
  kernel::cuda::adapt_alphas(follow, *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::time_mix_output() {
  kernel::cuda::time_mix_output(
      kernel::cuda::TimeMixOutput<Real>{block_.rows, ws_.y.data(), r(), k(), v(), ws_.g.data(),
                                        w_.ln_x_weight, w_.ln_x_bias, w_.r_k,
                                        e_.weights_.norms.group_eps, ws_.y.data()},
      *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::add_output() {
  if constexpr (can_group)
    if (are_grouped())
      return multiply_grouped({{ws_.y.data(), m_.output, sizes_.channels, sizes_.channels, nullptr,
                                ws_.x.data(), std::nullopt, true}});
  if (is_tall()) return add_tall(ws_.y.data(), m_.output, sizes_.channels);
  multiply(ws_.y.data(), m_.output, ws_.x.data(), sizes_.channels, sizes_.channels, true);
}

template <class Real>
void GpuExecutor<Real>::Layer::hidden(kernel::Activation activation) {
  if constexpr (can_group)
    if (are_grouped())
      return multiply_grouped({{ws_.mixes.data(), m_.ffn_key, sizes_.feed_forward, sizes_.channels,
                                ws_.hidden.data(), nullptr, activation}});
  if constexpr (can_group)
    if (is_tall()) {
      kernel::cuda::GroupedProducts op{.rows = rows_, .overlaps = true};
      op.add({ws_.mixes.data(), m_.ffn_key, sizes_.feed_forward, sizes_.channels, ws_.hidden.data(),
              nullptr, activation});
      return kernel::cuda::multiply_tall(op, 1, *e_.gpu);
    }
  multiply(ws_.mixes.data(), m_.ffn_key, ws_.hidden.data(), sizes_.feed_forward, sizes_.channels);
  kernel::cuda::activate(activation, ws_.hidden.data(), rows_ * sizes_.feed_forward, *e_.gpu);
}

template <class Real>
void GpuExecutor<Real>::Layer::add_hidden() {
  if constexpr (can_group)
    if (are_grouped())
      return multiply_grouped({{ws_.hidden.data(), m_.ffn_value, sizes_.channels,
                                sizes_.feed_forward, nullptr, ws_.x.data(), std::nullopt, true}});
  if (is_tall() && index_ + 1 < sizes_.layers)
    return add_tall(ws_.hidden.data(), m_.ffn_value, sizes_.feed_forward);
  multiply(ws_.hidden.data(), m_.ffn_value, ws_.x.data(), sizes_.channels, sizes_.feed_forward, true);
}

}  // namespace deltasane
