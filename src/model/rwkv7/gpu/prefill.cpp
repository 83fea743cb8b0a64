#include "model/rwkv7/gpu/prefill.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/delta_rule/delta_rule.h"
#include "model/log_probability.h"

namespace deltasane {
namespace {

using kernel::cuda::RowBlock;

bool wants_last(const SequenceInput& one) {
  return one.want == Want::last_logits || one.want == Want::sample;
}
bool wants_all(const SequenceInput& one) {
  return one.want == Want::all_logits || one.want == Want::top_log_probabilities;
}

}  // namespace

std::vector<PrefillSet> prefill_sets(std::span<const SequenceInput* const> sequences,
                                     int64_t chunk, Lengths lengths) {
  const auto length = [](const SequenceInput* one) { return int64_t(one->tokens.size()); };
  const auto kind = [&](const SequenceInput* one) {
    const int64_t phase = one->state->position % std::max(chunk, gpu_tile);
    // What follows the heads does so at positions that all of a set share.
    const int64_t place = one->adaptive ? one->state->position : -1;
    const bool has_references = one->adaptive && !one->adaptive->references.empty();
    return std::tuple(phase, place, has_references, one->adaptive ? length(one) : 0,
                      one->want == Want::losses);
  };
  std::vector<const SequenceInput*> sorted;
  for (const SequenceInput* one : sequences)
    if (!one->tokens.empty()) sorted.push_back(one);
  std::ranges::stable_sort(sorted, [&](const SequenceInput* a, const SequenceInput* b) {
    return std::tuple(kind(a), -length(a)) < std::tuple(kind(b), -length(b));
  });
  std::vector<PrefillSet> sets;
  for (const SequenceInput* one : sorted) {
    if (!sets.empty()) {
      PrefillSet& set = sets.back();
      // Up to the end of a tile that they begin in, sequences are of one length.
      const int64_t phase = one->state->position % gpu_tile, to_tile = (gpu_tile - phase) % gpu_tile;
      const bool fits = length(one) == length(set[0]) || (lengths == Lengths::any && length(one) >= to_tile);
      if (kind(one) == kind(set[0]) && fits && set.size() < gpu_prefill_sequences) {
        set.push_back(one);
        continue;
      }
    }
    sets.push_back({one});
  }
  return sets;
}

// One of the two streams, and what the block in it has yet to give.
template <class Real>
struct GpuPrefill<Real>::Stream {
  GpuExecutor<Real> executor;
  std::vector<GpuEvent> layer_done;
  PinnedBuffer tokens, targets, losses, taus, lengths_here;
  GpuBuffer lengths;
  std::optional<TokenBlock> block;  // in flight
  int64_t from = 0;               // its first token, in the call

  Stream(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights, const GpuSane& sane,
         int64_t vocabulary)
      : executor(std::move(gpu), weights, sane, vocabulary, gpu_block_tokens,
             gpu_block_tokens / gpu_tile + 1),
        layer_done(size_t(weights.sizes.layers)),
        tokens(gpu_block_tokens * sizeof(int32_t)),
        targets(gpu_block_tokens * sizeof(int32_t)),
        losses(gpu_block_tokens * sizeof(double)),
        taus(executor.ws.tau.bytes()),
        lengths_here(2 * gpu_block_tokens * sizeof(int32_t)),
        lengths(*executor.gpu, 2 * gpu_block_tokens * sizeof(int32_t), "lengths of sequences") {}
};

template <class Real>
struct GpuPrefill<Real>::Reading {
  std::span<const SequenceInput* const> set;

  int64_t count() const { return int64_t(set.size()); }
  int64_t length(int64_t i) const { return int64_t(set[size_t(i)]->tokens.size()); }
  int64_t time() const { return length(0); }  // the longest is the first
  // Sequences that have tokens from there on: the first ones.
  int64_t active(int64_t from) const {
    int64_t some = 0;
    while (some < count() && length(some) > from) ++some;
    return some;
  }
  // Tokens of each active sequence that the next block takes.
  int64_t block_tokens(int64_t from) const;
  bool has_losses() const { return set[0]->want == Want::losses; }
  bool has_taus() const {
    return std::ranges::any_of(set, [](const auto* one) { return one->taus != nullptr; });
  }
  // Tokens of a sequence in the block [from, from + tokens).
  int64_t tokens_in(int64_t i, int64_t from, int64_t tokens) const {
    return std::clamp<int64_t>(length(i) - from, 0, tokens);
  }
};

// A long prompt that begins inside a tile goes to its end first: the recurrence is fast from there.
// Blocks end on tiles. Of all ends the one is taken that computes the most tokens for its cost:
// sequences that end earlier leave rows of padding, and short blocks do not fill the GPU.
template <class Real>
int64_t GpuPrefill<Real>::Reading::block_tokens(int64_t from) const {
  constexpr int64_t launch_cost = 2048;  // of a block's kernels, in rows
  const int64_t position = set[0]->state->position + from, left = time() - from;
  const int64_t sequences = active(from);
  const int64_t to_tile = (gpu_tile - position % gpu_tile) % gpu_tile;
  if (to_tile > 0 && (left >= to_tile + 4 * gpu_tile || (sequences > 1 && left > to_tile)))
    return to_tile;
  const int64_t most =
      std::min(left, gpu_block_tokens / sequences / gpu_tile * gpu_tile - position % gpu_tile);
  if (length(sequences - 1) - from >= most) return most;  // none ends earlier
  int64_t best = most;
  double best_rate = 0;
  for (int64_t tokens = most; tokens > 0; tokens = (tokens - 1) / gpu_tile * gpu_tile) {
    int64_t used = 0;
    for (int64_t i = 0; i < sequences; ++i) used += tokens_in(i, from, tokens);
    const double rate = double(used) / double(sequences * tokens + launch_cost);
    if (rate > best_rate) best = tokens, best_rate = rate;
  }
  return best;
}

// Where the states of the sequences lie side by side, as a block has them.
template <class Real>
struct GpuPrefill<Real>::StateMemory {
  float *shifts, *memory;
};

template <class Real>
GpuPrefill<Real>::GpuPrefill(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights,
                             const GpuSane& sane, int64_t vocabulary,
                             std::shared_ptr<GpuStates> states, GpuAlphas& alphas)
    : gpu_(std::move(gpu)),
      weights_(weights),
      sane_(sane),
      vocabulary_(vocabulary),
      states_(std::move(states)),
      alphas_(alphas) {}

template <class Real>
GpuPrefill<Real>::~GpuPrefill() = default;

template <class Real>
Lengths GpuPrefill<Real>::lengths() const {
  return sane_.chunk == gpu_tile ? Lengths::any : Lengths::equal;
}

// Made when it is first needed: who only decodes needs none.
template <class Real>
GpuPrefill<Real>::Stream& GpuPrefill<Real>::stream(size_t number) {
  while (streams_.size() <= number) {
    const auto gpu = streams_.empty() ? gpu_ : std::make_shared<const Gpu>(gpu_->index());
    streams_.push_back(std::make_unique<Stream>(gpu, weights_, sane_, vocabulary_));
    gpu->wait();
  }
  return *streams_[number];
}

// One sequence has its state so; those of several are copied there.
template <class Real>
GpuPrefill<Real>::StateMemory GpuPrefill<Real>::packed_states(const Reading& reading) {
  const int64_t count = reading.count();
  float* numbers = states_->numbers_of(*reading.set[0]->state);
  if (count > 1) {
    const int64_t floats = count * (states_->shift_floats() + states_->memory_floats());
    if (packed_.elements() < floats)
      packed_ = GpuTensor<float>(*gpu_, {floats}, "the states of several sequences");
    numbers = packed_.data();
  }
  return {numbers, numbers + count * states_->shift_floats()};
}

template <class Real>
void GpuPrefill<Real>::move(const Reading& reading, const StateMemory& memory,
                            Direction direction) {
  const auto count = uint64_t(reading.count());
  if (count == 1) return;
  const int64_t layers = weights_.sizes.layers, channels = weights_.sizes.channels;
  const auto rows = [&](float* beside, float* own, int64_t floats, int64_t number) {
    const uint64_t bytes = uint64_t(floats) * sizeof(float);
    const GpuRows together{beside, count * bytes}, alone{own, bytes};
    if (direction == Direction::gather)
      copy_rows_on_gpu(together, alone, bytes, number, *gpu_);
    else
      copy_rows_on_gpu(alone, together, bytes, number, *gpu_);
  };
  const int64_t heads = states_->memory_floats() / layers;
  for (int64_t i = 0; i < reading.count(); ++i) {
    float* const own = states_->numbers_of(*reading.set[size_t(i)]->state);
    rows(memory.shifts + i * channels, own, channels, 2 * layers);
    rows(memory.memory + i * heads, own + states_->shift_floats(), heads, layers);
  }
}

template <class Real>
void GpuPrefill<Real>::read(std::span<const SequenceInput* const> set) {
  const Reading reading{set};
  const StateMemory memory = packed_states(reading);
  move(reading, memory, Direction::gather);
  const int64_t count = reading.time(), begun = set[0]->state->position;
  for (const SequenceInput* one : set) one->state->changed_on_device();
  alphas_.begin(set);
  int64_t from = 0;
  for (size_t block = 0; from < count; ++block) {
    const int64_t some =
        std::min(reading.block_tokens(from), alphas_.until_next_look(begun + from));
    Stream& mine = stream(block % 2);
    const Stream* const before = block > 0 ? &stream((block + 1) % 2) : nullptr;
    finish(mine, reading);
    enqueue(mine, before, from, some, memory, reading);
    from += some;
  }
  // The older block first.
  std::vector<Stream*> open;
  for (const std::unique_ptr<Stream>& one : streams_)
    if (one->block) open.push_back(one.get());
  std::ranges::sort(open, {}, &Stream::from);
  for (Stream* one : open) finish(*one, reading);
  take_last_logits(reading);
  alphas_.end(set);
  for (const SequenceInput* one : set) one->state->position += int64_t(one->tokens.size());
  if (reading.count() == 1) return;
  move(reading, memory, Direction::scatter);
  gpu_->wait();
}

template <class Real>
void GpuPrefill<Real>::enqueue(Stream& s, const Stream* before, int64_t from, int64_t some,
                               const StateMemory& memory, const Reading& reading) {
  GpuExecutor<Real>& executor = s.executor;
  TokenBlock block;
  const int64_t sequences = reading.active(from);
  block.rows = RowBlock{sequences, some, weights_.sizes.channels};
  block.slots = reading.count();
  block.position = reading.set[0]->state->position + from;
  block.shifts = memory.shifts, block.memory = memory.memory;
  block.alphas = alphas_.now();
  block.follow = alphas_.look_after(block.position + some);
  if (sane_.kind != SaneKind::none)
    block.chunks = kernel::chunks_ending(block.position, some, sane_.chunk);
  int32_t *const tokens = s.tokens.template as<int32_t>(),
                *const targets = s.targets.template as<int32_t>(),
                *const lengths = s.lengths_here.template as<int32_t>(),
                *const last_rows = lengths + sequences;
  bool is_ragged = false;
  for (int64_t i = 0; i < sequences; ++i) {
    const SequenceInput& one = *reading.set[size_t(i)];
    const int64_t own = reading.tokens_in(i, from, some);
    const auto copy = [&](std::span<const int32_t> ids, int32_t* to) {
      if (own > 0) std::copy_n(ids.begin() + from, own, to + i * some);
      std::fill_n(to + i * some + own, some - own, 0);
    };
    copy(one.tokens, tokens);
    if (reading.has_losses()) copy(one.targets, targets);
    lengths[i] = int32_t(own), last_rows[i] = int32_t(i * some + own - 1);
    is_ragged = is_ragged || own != some;
  }
  const uint64_t bytes = uint64_t(block.rows.rows()) * sizeof(int32_t);
  copy_to_gpu(executor.ws.tokens.data(), tokens, bytes, *executor.gpu);
  if (reading.has_losses()) copy_to_gpu(executor.ws.targets.data(), targets, bytes, *executor.gpu);
  if (is_ragged) {
    copy_to_gpu(s.lengths.data(), lengths, 2 * uint64_t(sequences) * sizeof(int32_t), *executor.gpu);
    block.lengths = reinterpret_cast<const int32_t*>(s.lengths.data());
    block.last_rows = block.lengths + sequences;
  }
  executor.embed(block);
  for (int64_t layer = 0; layer < weights_.sizes.layers; ++layer) {
    if (before) before->layer_done[size_t(layer)].stream_wait(executor.gpu->stream());
    executor.layer(layer, block);
    s.layer_done[size_t(layer)].record(*executor.gpu);
  }
  if (reading.has_losses()) enqueue_losses(s, block.rows.rows());
  if (reading.has_taus() && block.chunks > 0)
    copy_to_host(s.taus.template as<float>(), executor.ws.tau.data(),
                 uint64_t(weights_.sizes.layers * sequences * block.chunks * weights_.sizes.heads) *
                     sizeof(float),
                 *executor.gpu);
  s.block = block, s.from = from;
  take_all_logits(s, reading);
  keep_last_rows(s, reading);
}

template <class Real>
void GpuPrefill<Real>::enqueue_losses(Stream& s, int64_t rows) {
  GpuExecutor<Real>& executor = s.executor;
  for (int64_t at = 0; at < rows; at += executor.ws.slice) {
    const int64_t some = std::min(executor.ws.slice, rows - at);
    executor.logits(at, some);
    kernel::cuda::CrossEntropy<float> op{};
    op.rows = some, op.vocabulary = vocabulary_, op.logits = executor.ws.logits.data();
    op.target = executor.ws.targets.data() + at;
    op.loss = executor.ws.loss.data() + at;
    op.with_gradient = false;
    kernel::cuda::cross_entropy(op, *executor.gpu);
  }
  copy_to_host(s.losses.template as<double>(), executor.ws.loss.data(), uint64_t(rows) * sizeof(double),
               *executor.gpu);
}

// Of the sequences that want them for every token, a slice at a time.
template <class Real>
void GpuPrefill<Real>::take_all_logits(Stream& s, const Reading& reading) {
  GpuExecutor<Real>& executor = s.executor;
  const int64_t time = s.block->rows.time;
  for (int64_t i = 0; i < s.block->rows.sequences; ++i) {
    const SequenceInput& one = *reading.set[size_t(i)];
    if (!wants_all(one)) continue;
    const int64_t own = reading.tokens_in(i, s.from, time);
    const bool keeps = one.want == Want::all_logits;
    Tensor<float> held;
    if (!keeps) held = Tensor<float>({std::min(executor.ws.slice, std::max<int64_t>(own, 1)), vocabulary_});
    for (int64_t at = 0; at < own; at += executor.ws.slice) {
      const int64_t some = std::min(executor.ws.slice, own - at);
      executor.logits(i * time + at, some);
      float* const to = keeps ? one.logits.data + (s.from + at) * vocabulary_ : held.data();
      copy_to_host(to, executor.ws.logits.data(), uint64_t(some * vocabulary_) * sizeof(float),
                   *executor.gpu);
      executor.gpu->wait();
      for (int64_t t = 0; !keeps && t < some; ++t) {
        const std::span<const float> logits(to + t * vocabulary_, size_t(vocabulary_));
        const auto token = size_t(s.from + at + t);
        take_top(logits, one.top.subspan(token * size_t(one.top_count), size_t(one.top_count)));
        if (!one.targets.empty()) one.losses[token] = -log_probability(logits, one.targets[token]);
      }
    }
  }
}

// Of the sequences that end in this block and want logits: their last rows of x. The host does not
// wait for them before the last block, so that the GPU always has another one.
template <class Real>
void GpuPrefill<Real>::keep_last_rows(Stream& s, const Reading& reading) {
  const GpuExecutor<Real>& executor = s.executor;
  const int64_t time = s.block->rows.time, channels = weights_.sizes.channels;
  for (int64_t i = 0; i < s.block->rows.sequences; ++i) {
    const int64_t own = reading.length(i) - s.from;  // its last token is the one before
    if (!wants_last(*reading.set[size_t(i)]) || own <= 0 || own > time) continue;
    if (last_rows_.elements() == 0)
      last_rows_ = GpuTensor<float>(*gpu_, {int64_t(gpu_prefill_sequences), channels},
                                    "the last rows of prompts");
    copy_on_gpu(last_rows_.data() + i * channels,
                executor.ws.x.data() + (i * time + own - 1) * channels,
                uint64_t(channels) * sizeof(float), *executor.gpu);
  }
}

// When all blocks are done. Sequences share the product with the head's weights.
template <class Real>
void GpuPrefill<Real>::take_last_logits(const Reading& reading) {
  if (!std::ranges::any_of(reading.set, [](const auto* one) { return wants_last(*one); })) return;
  GpuExecutor<Real>& executor = stream(0).executor;
  copy_on_gpu(executor.ws.x.data(), last_rows_.data(),
              uint64_t(reading.count() * weights_.sizes.channels) * sizeof(float), *executor.gpu);
  Tensor<float> held;  // of samplers that brought no room
  for (int64_t at = 0; at < reading.count(); at += executor.ws.slice) {
    const int64_t some = std::min(executor.ws.slice, reading.count() - at);
    executor.logits(at, some);
    for (int64_t i = 0; i < some; ++i) {
      const SequenceInput& one = *reading.set[size_t(at + i)];
      if (!wants_last(one)) continue;
      if (!one.logits && held.elements() == 0) held = Tensor<float>({1, vocabulary_});
      float* const to = one.logits ? one.logits.data : held.data();
      copy_to_host(to, executor.ws.logits.data() + i * vocabulary_,
                   uint64_t(vocabulary_) * sizeof(float), *executor.gpu);
      if (one.want != Want::sample) continue;
      executor.gpu->wait();
      *one.sampled = one.sampler->sample({to, size_t(vocabulary_)},
                                         one.state->position + int64_t(one.tokens.size()));
    }
  }
  executor.gpu->wait();
}

// Waits for the block in a stream, if there is one, and takes what it found.
template <class Real>
void GpuPrefill<Real>::finish(Stream& s, const Reading& reading) {
  if (!s.block) return;
  const TokenBlock block = *s.block;
  s.block.reset();
  s.executor.gpu->wait();
  const int64_t heads = weights_.sizes.heads, numbers = block.chunks * heads;
  for (int64_t i = 0; i < block.rows.sequences; ++i) {
    const SequenceInput& one = *reading.set[size_t(i)];
    const int64_t own = reading.tokens_in(i, s.from, block.rows.time);
    if (reading.has_losses() && own > 0)
      std::copy_n(s.losses.template as<double>() + i * block.rows.time, own,
                  one.losses.begin() + s.from);
    if (!one.taus || numbers == 0) continue;
    const int64_t chunks = kernel::chunks_ending(block.position, own, sane_.chunk);
    for (int64_t layer = 0; layer < weights_.sizes.layers; ++layer)
      one.taus->add(layer, {s.taus.template as<float>() + (layer * block.rows.sequences + i) * numbers,
                            size_t(chunks * heads)});
  }
}

template class GpuPrefill<float>;
template class GpuPrefill<bf16>;

}  // namespace deltasane
