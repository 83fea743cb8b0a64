#include "model/rwkv7/gpu/many.h"

#include <algorithm>

namespace deltasane {
namespace {

constexpr size_t most_recorded = 96;

// Of 512 sequences these are 38 numbers.
int64_t rows_for(int64_t sequences) {
  const int64_t step = sequences <= 32 ? 4 : 16;
  return (sequences + step - 1) / step * step;
}

}  // namespace

template <class Real>
GpuManyDecoder<Real>::GpuManyDecoder(std::shared_ptr<const Gpu> gpu,
                                     const Rwkv7GpuWeights<Real>& weights, const GpuSane& sane,
                                     int64_t vocabulary, int64_t state_floats)
    : gpu_(std::move(gpu)),
      weights_(weights),
      sane_(sane),
      vocabulary_(vocabulary),
      unread_state_(*gpu_, {state_floats}, "single tokens") {
  unread_state_.zero(*gpu_);
}

template <class Real>
void GpuManyDecoder<Real>::make_room(int64_t rows) {
  if (executor_ && executor_->ws.capacity >= rows) return;
  recorded_.clear();
  executor_.reset();
  const int64_t room = (rows + 63) / 64 * 64;
  executor_.emplace(gpu_, weights_, sane_, vocabulary_, room, room, GpuExecutor<Real>::Branches::own_streams);
  places_ = GpuBuffer(*gpu_, uint64_t(room) * (sizeof(float*) + sizeof(int64_t)), "single tokens");
  places_here_ = PinnedBuffer(places_.size());
  tokens_here_ = PinnedBuffer(uint64_t(room) * sizeof(int32_t));
}

template <class Real>
TokenBlock GpuManyDecoder<Real>::block_of(std::span<const SingleToken> sequences,
                                        const float* alphas) {
  const int64_t room = executor_->ws.capacity;
  const auto positions_of = [room](auto* states) {
    return reinterpret_cast<int64_t*>(states + room);
  };
  float** const states_here = places_here_.as<float*>();
  TokenBlock block;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SingleToken& one = sequences[i];
    states_here[i] = one.state, positions_of(states_here)[i] = one.position;
    tokens_here_.as<int32_t>()[i] = one.token;
    if (sane_.kind != SaneKind::none && (one.position + 1) % sane_.chunk == 0) block.chunks = 1;
  }
  const int64_t rows = rows_for(int64_t(sequences.size()));
  for (auto i = int64_t(sequences.size()); i < rows; ++i) {
    states_here[i] = unread_state_.data(), positions_of(states_here)[i] = 0;
    tokens_here_.as<int32_t>()[i] = 0;
  }
  block.rows = {rows, 1, weights_.sizes.channels};
  float** const states = reinterpret_cast<float**>(places_.data());
  block.states = states, block.positions = positions_of(states);
  block.alphas = alphas;
  return block;
}

template <class Real>
void GpuManyDecoder<Real>::ask(const TokenBlock& block) {
  const int64_t count = block.rows.sequences;
  copy_to_gpu(places_.data(), places_here_.as<float*>(), places_.size(), *gpu_);
  copy_to_gpu(executor_->ws.tokens.data(), tokens_here_.as<int32_t>(),
              uint64_t(count) * sizeof(int32_t), *gpu_);
  executor_->embed(block);
  for (int64_t layer = 0; layer < weights_.sizes.layers; ++layer) executor_->layer(layer, block);
}

template <class Real>
void GpuManyDecoder<Real>::run(const TokenBlock& block) {
  if (block.alphas) return ask(block);  // who knows where others will be
  executor_->set_constant_taus();
  if (recorded_.size() > most_recorded) gpu_->wait(), recorded_.clear();
  const auto [place, is_new] = recorded_.try_emplace({block.rows.sequences, block.chunks});
  if (is_new) return ask(block);  // as it is: kernels are loaded when they are first used
  GpuGraph& recorded = place->second;
  if (!recorded) recorded = GpuGraph(*gpu_, [&] { ask(block); });
  recorded.run(*gpu_);
}

template <class Real>
void GpuManyDecoder<Real>::step(std::span<const SingleToken> sequences, const float* alphas,
                                const Take& take) {
  const auto count = int64_t(sequences.size());
  make_room(rows_for(std::min(count, gpu_block_tokens)));
  for (int64_t from = 0; from < count; from += gpu_block_tokens) {
    if (from > 0) gpu_->wait();  // for what lies in the host's memory
    const int64_t some = std::min(gpu_block_tokens, count - from);
    run(block_of(sequences.subspan(size_t(from), size_t(some)), alphas));
    for (int64_t at = 0; at < some; at += executor_->ws.slice) {
      const int64_t rows = std::min(executor_->ws.slice, some - at);
      executor_->logits(at, rows);
      take(from + at, rows, executor_->ws.logits.data());
    }
  }
}

template class GpuManyDecoder<float>;
template class GpuManyDecoder<bf16>;

}  // namespace deltasane
