#include "model/gated_delta/gpu/executor.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/norm/rms_cuda.h"
#include "model/gated_delta/gpu/executor_few.h"
#include "model/gated_delta/gpu/executor_sparse.h"

namespace deltasane::gated_delta {

using namespace kernel::cuda;

namespace {

constexpr int64_t logits_at_once = int64_t(1) << 28;  // numbers: 1 GiB

bool has_experts(const Config& c) { return std::ranges::count(c.experts, true) > 0; }

// A multiple of what products take as a tile, where there are so many.
int64_t rows_at_once(int64_t vocabulary, int64_t capacity) {
  constexpr int64_t tile = 256;
  int64_t rows = logits_at_once / vocabulary;
  if (rows > tile) rows -= rows % tile;
  return std::clamp<int64_t>(rows, 1, capacity);
}

}  // namespace

template <class Real>
GpuExecutor<Real>::GpuExecutor(std::shared_ptr<const Gpu> gpu, const GpuWeights<Real>& weights,
                               const SaneUse& sane, const GpuCacheStorage& storage,
                               int64_t capacity)
    : gpu_(std::move(gpu)),
      weights_(weights),
      c(weights.config),
      sane_(sane),
      storage_(storage),
      capacity_(capacity),
      slice_(rows_at_once(c.vocabulary, capacity)),
      products_(*gpu_) {
  memory_ = planned(*gpu_, cat("the activations of ", capacity, " tokens"),
                    [&](MemoryPlan& plan) { place(plan); });
  places_ = GpuBuffer(*gpu_, places_bytes(), "the places of sequences");
  places_here_ = PinnedBuffer(places_bytes());
}

template <class Real>
void GpuExecutor<Real>::place(MemoryPlan& plan) {
  const int64_t rows = capacity_, heads = c.value_heads;
  const auto columns = [&](auto*& at, int64_t count) { plan.place(at, rows * count); };
  columns(x, c.channels), columns(h, c.channels);
  columns(in, std::max({weights_.recurrent_columns(),
                        c.has(Mixer::attention) ? weights_.attention_columns() : 0,
                        c.has(Mixer::latent) ? weights_.latent_columns() : 0}));
  columns(z, 2 * heads), columns(z_decay, c.decay_rank ? c.decays() : 0), columns(g, c.decays());
  columns(beta, heads), columns(z_tau, heads), columns(tau, heads), columns(chunk_tau, heads);
  columns(low, std::max(c.decay_rank, c.gate_rank));
  columns(gate, c.gate_rank ? c.value_channels() : 0);
  columns(r, c.key_channels()), columns(k, c.key_channels()), columns(v, c.value_channels());
  columns(y, std::max({c.value_channels(), c.heads * c.head_size, c.heads * c.latent_value_size}));
  if (c.has(Mixer::latent)) place_latent(plan);
  if (has_experts(c)) place_experts(plan);
  columns(hidden, 2 * std::max(c.feed_forward, c.shared_expert_size));
  if (FewTokens::takes(weights_)) {
    const int64_t few = std::min(rows, FewTokens::most_sequences);
    plan.place(few_in_, few * FewTokens::columns(weights_));
    plan.place(few_y_, few * c.value_channels());
  }
  plan.place(kept_, std::min(kept_rows, rows) * c.channels);
  plan.place(normed_, slice_ * c.channels), plan.place(logits_, slice_ * c.vocabulary);
  plan.place(loss_, rows), plan.place(targets_, rows);
}

template <class Real>
void GpuExecutor<Real>::place_latent(MemoryPlan& plan) {
  const int64_t all = capacity_ * c.heads;
  plan.place(latent_q, all * (c.latent_size + c.shared_key_size));
  plan.place(latent_y, all * c.latent_size), plan.place(heads_wide, all * c.latent_size);
  plan.place(heads_narrow, all * std::max(c.latent_key_size, c.latent_value_size));
}

template <class Real>
void GpuExecutor<Real>::place_experts(MemoryPlan& plan) {
  const int64_t slots = capacity_ * c.experts_used;
  plan.place(router, capacity_ * c.expert_count), plan.place(chosen, slots);
  plan.place(expert_hidden,
             std::min(capacity_, most_rows_of_experts) * c.experts_used * c.expert_size);
  plan.place(expert_in, slots * c.channels), plan.place(expert_both, 2 * slots * c.expert_size);
  plan.place(expert_out, slots * c.channels), plan.place(shared_z, capacity_);
  plan.place(slot_rows, slots), plan.place(slot_places, slots);
}

template <class Real>
typename GpuExecutor<Real>::Places GpuExecutor<Real>::placed(std::byte* base) const {
  Places at;
  at.position = reinterpret_cast<int64_t*>(base), at.capacity = at.position + capacity_;
  at.states = reinterpret_cast<float**>(at.capacity + capacity_);
  at.caches = reinterpret_cast<Real**>(at.states + capacity_);
  at.tokens = reinterpret_cast<int32_t*>(at.caches + capacity_);
  at.sequence = at.tokens + capacity_, at.first = at.sequence + capacity_;
  at.length = at.first + capacity_;
  return at;
}
template <class Real>
uint64_t GpuExecutor<Real>::places_bytes() const {
  return uint64_t(capacity_) * (2 * sizeof(int64_t) + 2 * sizeof(void*) + 4 * sizeof(int32_t));
}

template <class Real>
void GpuExecutor<Real>::set(std::span<const GpuInput> inputs, GpuStates& states) {
  inputs_.assign(inputs.begin(), inputs.end());
  const Places here = placed(places_here_.as<std::byte>()), there = placed(places_.data());
  rows_ = {0, int64_t(inputs.size()), 0, there.sequence, there.first, there.length,
           there.position, there.states};
  has_alphas_ = false;
  recorded_.clear();
  int64_t taus = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto length = int64_t(inputs[i].tokens.size());
    require(length > 0 && rows_.rows + length <= capacity_, "a block has room for its tokens");
    SequenceState& state = *inputs[i].state;
    here.first[i] = int32_t(rows_.rows), here.length[i] = int32_t(length);
    here.position[i] = state.position;
    here.states[i] = states.numbers_of(state);
    const GpuStates::Caches caches = states.append(state, length);
    here.caches[i] = static_cast<Real*>(caches.data), here.capacity[i] = caches.capacity;
    for (int64_t t = 0; t < length; ++t) {
      here.tokens[rows_.rows + t] = inputs[i].tokens[size_t(t)];
      here.sequence[rows_.rows + t] = int32_t(i);
    }
    rows_.rows += length, rows_.longest = std::max(rows_.longest, length);
    has_alphas_ = has_alphas_ || !state.alphas.empty();
    if (inputs[i].taus) taus += chunks_of(inputs[i]) * c.value_heads * c.layers();
  }
  if (taus_.elements() < taus) taus_ = GpuTensor<float>(*gpu_, {taus}, "records of tau");
  set_taus();
}

template <class Real>
int64_t GpuExecutor<Real>::chunks_of(const GpuInput& one) const {
  if (sane_.kind == SaneKind::none) return 0;
  return kernel::chunks_ending(one.state->position, int64_t(one.tokens.size()), sane_.chunk);
}

template <class Real>
void GpuExecutor<Real>::record_taus() {
  if (recorded_.empty()) return;
  taus_here_.resize(size_t(recorded_.back().end()));
  copy_to_host(taus_here_.data(), taus_.data(), std::span(taus_here_).size_bytes(), *gpu_);
  gpu_->wait();
  for (const Recorded& one : recorded_)
    one.to->add(one.layer, std::span(taus_here_).subspan(size_t(one.from), size_t(one.count)));
}

// Of SANE at run time, thresholds that captured work finds set; or the alphas of the sequences.
template <class Real>
void GpuExecutor<Real>::set_taus() {
  if (sane_.kind == SaneKind::run_time && !has_alphas_ && !has_constant_taus_) {
    fill_tau(tau, capacity_ * c.value_heads, float(kernel::tau_at_zero(sane_.alpha)), *gpu_);
    has_constant_taus_ = true;
  }
  if (!has_alphas_ || sane_.kind == SaneKind::none) return;
  has_constant_taus_ = false;
  const std::span<const GpuInput> inputs = inputs_;
  const size_t heads = inputs[0].state->layout().heads().size();
  alphas_here_.assign(heads * inputs.size(), float(sane_.alpha));
  for (size_t i = 0; i < inputs.size(); ++i)
    std::ranges::copy(inputs[i].state->alphas, alphas_here_.begin() + int64_t(i * heads));
  if (alphas_.elements() < int64_t(alphas_here_.size()))
    alphas_ = GpuTensor<float>(*gpu_, {int64_t(alphas_here_.size())}, "alphas");
  copy_to_gpu(alphas_.data(), alphas_here_.data(), alphas_here_.size() * sizeof(float), *gpu_);
  gpu_->wait();
}

template <class Real>
bool GpuExecutor<Real>::can_repeat() const {
  return rows_.longest == 1 && !has_alphas_ &&
         (!has_experts(c) || rows_.rows <= most_rows_of_experts) &&
         std::ranges::none_of(inputs_, [](const GpuInput& one) { return one.taus; });
}

template <class Real>
bool GpuExecutor<Real>::takes_few_tokens() const {
  return can_repeat() && rows_.sequences <= FewTokens::most_sequences && FewTokens::takes(weights_);
}

template <class Real>
void GpuExecutor<Real>::run() {
  copy_to_gpu(places_.data(), places_here_.as<std::byte>(), places_bytes(), *gpu_);
  kernel::cuda::embed({1, rows_.rows, c.channels}, placed(places_.data()).tokens,
                      weights_.embedding, x, *gpu_);
  for (int64_t layer = 0; layer < c.layers(); ++layer) {
    if (takes_few_tokens()) {
      FewTokens(*this, layer).run();
      continue;
    }
    Block block(*this, layer);
    block_forward(block);
  }
}

template <class Real>
template <class Out>
void GpuExecutor<Real>::multiply(const Real* rows, const Real* matrix, Out* to, int64_t count,
                                 int64_t columns, int64_t inner, bool add) {
  Products::Product<Real, Out> product{Products::Form::nt, count, columns, inner, rows, matrix, to};
  product.add = add;
  products_.multiply(product);
}

template <class Real>
float* GpuExecutor<Real>::head(const float* from, int64_t count) {
  if (takes_few_tokens()) {
    FewTokens::head(*this, from, count, logits_);
    return logits_;
  }
  RmsNorm<float, Real> op;
  op.rows = count, op.size = c.channels, op.x = from, op.x_step = op.y_step = c.channels;
  op.weight = weights_.norm, op.eps = float(c.norm_eps), op.y = normed_;
  rms_norm(op, *gpu_);
  multiply(normed_, weights_.head, logits_, count, c.vocabulary, c.channels);
  return logits_;
}
template <class Real>
float* GpuExecutor<Real>::logits(int64_t from, int64_t count) {
  return head(x + from * c.channels, count);
}
template <class Real>
float* GpuExecutor<Real>::logits_of_kept(int64_t from, int64_t count) {
  return head(kept_ + from * c.channels, count);
}
template <class Real>
void GpuExecutor<Real>::keep_row(int64_t row, int64_t to) {
  require(to < std::min(kept_rows, capacity_), "there is room for a row of each sequence");
  copy_on_gpu(kept_ + to * c.channels, x + row * c.channels, uint64_t(c.channels) * sizeof(float),
              *gpu_);
}

template <class Real>
void GpuExecutor<Real>::losses(int64_t from, std::span<const int32_t> targets,
                               std::span<double> losses) {
  const auto count = int64_t(targets.size());
  copy_to_gpu(targets_, targets.data(), targets.size_bytes(), *gpu_);
  for (int64_t at = 0; at < count; at += slice_) {
    const int64_t some = std::min(slice_, count - at);
    CrossEntropy<float> op{};
    op.rows = some, op.vocabulary = c.vocabulary, op.logits = logits(from + at, some);
    op.target = targets_ + at, op.loss = loss_ + at, op.with_gradient = false;
    cross_entropy(op, *gpu_);
  }
  copy_to_host(losses.data(), loss_, losses.size_bytes(), *gpu_);
  gpu_->wait();
}

template class GpuExecutor<float>;
template class GpuExecutor<bf16>;

}  // namespace deltasane::gated_delta
