#include "model/rwkv7/gpu/model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernel/cross_entropy/cuda.h"
#include "kernel/delta_rule/delta_rule.h"
#include "model/rwkv7/gpu/alphas.h"
#include "model/rwkv7/gpu/decode.h"
#include "model/rwkv7/gpu/lane.h"
#include "model/rwkv7/gpu/many.h"
#include "model/rwkv7/gpu/state.h"

namespace deltasane {
namespace {

using kernel::cuda::RowBlock;

constexpr int64_t tile = 16;  // blocks end on its multiples, so that the cut leaves no trace

GpuSane sane_on_gpu(const SaneUse& sane) {
  if (sane.kind == SaneKind::none) return {};
  return {sane.kind, sane.alpha, float(sane.alpha * std::log(2.0) + 1), sane.chunk};
}

// What the kernels do not have. No GPU is needed to be told.
void expect_for_gpu(const Rwkv7Shape& shape, const SaneUse& sane) {
  if (shape.head_size != 64)
    fail(Fault::device, "a model on a GPU: expected heads of 64 channels, found ", shape.head_size,
         "; use --device cpu");
  if (sane.kind != SaneKind::none && sane.chunk % tile != 0)
    fail(Fault::device, "SANE on a GPU: expected a chunk that is a multiple of ", tile, ", found ",
         sane.chunk, "; use --device cpu");
}

constexpr size_t most_beside = 16;  // sequences of one reading

// Of each of some sequences. A long reading that begins inside a tile goes to its end first: the
// recurrence is fast from there.
int64_t tokens_at_once(int64_t position, int64_t left, int64_t sequences) {
  const int64_t to_tile = (tile - position % tile) % tile;
  if (to_tile > 0 && left >= to_tile + 4 * tile) return to_tile;
  const int64_t most = gpu_block_tokens / sequences / tile * tile;
  return std::min(left, most - position % tile);
}

// What is wanted of the tokens of a call.
struct Reading {
  std::span<const Rwkv7::Scored> sequences;  // with targets where losses are wanted
  Rwkv7::Logits wanted = Rwkv7::Logits::none;
  View<float> logits{};  // of one sequence

  int64_t count() const { return int64_t(sequences.size()); }
  int64_t time() const { return int64_t(sequences[0].tokens.size()); }
  bool has_targets() const { return !sequences[0].targets.empty(); }
  bool has_taus() const {
    return std::ranges::any_of(sequences, [](const auto& one) { return one.taus != nullptr; });
  }
};

bool has_alphas(const RecurrentState* state) { return !state->alphas.empty(); }

// What is picked, and how, on the GPU.
class GpuPicks {
 public:
  void upload(const Picks& picks, const Gpu& gpu) {
    copy(picking_, picks.picking, gpu);
    copy(penalties_, picks.penalties, gpu);
    room(picked_, picks.picked.size(), gpu);
    gpu.wait();
  }
  void pick(int64_t from, int64_t rows, int64_t vocabulary, float* logits, const Gpu& gpu) {
    kernel::cuda::pick_tokens({rows, vocabulary, logits, picking_.data() + from, penalties_.data(),
                               picked_.data() + from},
                              gpu);
  }
  void download(const Picks& picks, const Gpu& gpu) const {
    copy_to_host(picks.picked.data(), picked_.data(), picks.picked.size_bytes(), gpu);
    gpu.wait();
  }

 private:
  template <class T>
  static void room(GpuTensor<T>& place, size_t count, const Gpu& gpu) {
    if (size_t(place.elements()) < count)
      place = GpuTensor<T>(gpu, {int64_t(2 * count)}, "picking tokens");
  }
  template <class T>
  static void copy(GpuTensor<T>& place, std::span<const T> numbers, const Gpu& gpu) {
    room(place, numbers.size(), gpu);
    copy_to_gpu(place.data(), numbers.data(), numbers.size_bytes(), gpu);
  }

  GpuTensor<kernel::cuda::Picking> picking_;
  GpuTensor<kernel::cuda::TokenPenalty> penalties_;
  GpuTensor<kernel::cuda::Picked> picked_;
};

// One of the two queues, and what the block in it has yet to hand over.
template <class Real>
struct Queue {
  GpuLane<Real> lane;
  std::vector<GpuEvent> layer_done;
  PinnedBuffer tokens, targets, losses, taus;
  std::optional<GpuBlock> block;  // in the queue
  int64_t from = 0;               // its first token, in the call

  Queue(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights, const GpuSane& sane,
        int64_t vocabulary)
      : lane(std::move(gpu), weights, sane, vocabulary, gpu_block_tokens,
             gpu_block_tokens / tile + 1),
        layer_done(size_t(weights.sizes.layers)),
        tokens(gpu_block_tokens * sizeof(int32_t)),
        targets(gpu_block_tokens * sizeof(int32_t)),
        losses(gpu_block_tokens * sizeof(double)),
        taus(lane.ws.tau.bytes()) {}
};

template <class Real>
class Model : public Rwkv7OnGpu {
 public:
  Model(const Rwkv7Checkpoint& checkpoint, const Rwkv7Shape& shape, const SaneUse& sane, int index)
      : shape_(shape),
        sane_(sane_on_gpu(sane)),
        gpu_(std::make_shared<const Gpu>(index)),
        weights_(checkpoint, shape, sane.kind, *gpu_),
        states_(std::make_shared<GpuStates>(
            gpu_, StateShape{shape.layers, shape.channels, shape.heads, shape.head_size})),
        alphas_(gpu_, shape.layers, shape.heads, sane.alpha) {}

  Tensor<float> room_for_logits(int64_t rows) const override {
    gpu_->make_current();
    const Shape shape{rows, shape_.vocabulary};
    return {shape, pinned_memory(Tensor<float>::bytes_of(shape))};
  }

  void forward(std::span<const int32_t> tokens, RecurrentState& state, Rwkv7::Logits wanted,
               View<float> logits, TauRecord* taus) override {
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    require(!logits || logits.packed(), "logits lie side by side");
    if (tokens.size() == 1 && !taus && state.alphas.empty()) {
      const SingleToken one[] = {{tokens[0], state.position, states_->numbers_of(state)}};
      decoder().step(one, wanted == Rwkv7::Logits::none ? nullptr : logits.data);
      state.changed_on_device();
      ++state.position;
      return;
    }
    const Rwkv7::Scored alone[] = {{tokens, {}, &state, {}, taus}};
    read({alone, wanted, logits});
  }

  void score(std::span<const Rwkv7::Scored> sequences) override {
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    for (size_t from = 0; from < sequences.size(); from += most_beside)
      read({sequences.subspan(from, std::min(most_beside, sequences.size() - from))});
  }

  void step(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
            View<float> logits) override {
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    require(logits.packed(), "logits lie side by side");
    if (tokens.empty()) return;
    const auto same_alphas = [&](const RecurrentState* state) {
      return state->alphas == states[0]->alphas;
    };
    if (!std::ranges::all_of(states, same_alphas)) return step_singly(tokens, states, logits);
    if (decoder().takes(tokens.size()) && states[0]->alphas.empty()) {
      decoder().step(singles(tokens, states), logits.data);
    } else {
      step_many(tokens, states, [&](int64_t from, int64_t rows, const float* there) {
        copy_to_host(logits.data + from * shape_.vocabulary, there,
                     uint64_t(rows * shape_.vocabulary) * sizeof(float), *gpu_);
      });
      gpu_->wait();
    }
    for (RecurrentState* state : states) state->changed_on_device(), ++state->position;
  }

  bool step_and_pick(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                     const Picks& picks) override {
    if (std::ranges::any_of(states, has_alphas)) return false;
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    if (tokens.size() == 1) {
      picks.picked[0] =
          decoder().step_and_pick(singles(tokens, states)[0], picks.picking[0], picks.penalties);
    } else {
      picks_.upload(picks, *gpu_);
      const auto pick = [&](int64_t from, int64_t rows, float* there) {
        picks_.pick(from, rows, shape_.vocabulary, there, *gpu_);
      };
      if (decoder().takes(tokens.size()))
        pick(0, int64_t(tokens.size()), decoder().ask(singles(tokens, states)));
      else
        step_many(tokens, states, pick);
      picks_.download(picks, *gpu_);
    }
    for (RecurrentState* state : states) state->changed_on_device(), ++state->position;
    return true;
  }

  uint64_t weight_bytes() const override { return weights_.bytes; }
  uint64_t read_bytes() const override { return weights_.bytes - weights_.embedding_bytes; }
  uint64_t resident_bytes() const override {
    return gpu_->facts().memory_bytes - gpu_->free_bytes();
  }
  std::string gpu_name() const override { return gpu_->facts().name; }

 private:
  // As decoders take them.
  std::vector<SingleToken> singles(std::span<const int32_t> tokens,
                                   std::span<RecurrentState* const> states) const {
    std::vector<SingleToken> sequences;
    for (size_t i = 0; i < tokens.size(); ++i)
      sequences.push_back({tokens[i], states[i]->position, states_->numbers_of(*states[i])});
    return sequences;
  }

  // Made when they are first needed: who only decodes needs no blocks.
  GpuDecoder<Real>& decoder() {
    if (!decoder_) decoder_.emplace(gpu_, weights_, sane_, shape_.vocabulary);
    return *decoder_;
  }
  Queue<Real>& queue(size_t number) {
    while (queues_.size() <= number) {
      const auto gpu = queues_.empty() ? gpu_ : std::make_shared<const Gpu>(gpu_->index());
      queues_.push_back(std::make_unique<Queue<Real>>(gpu, weights_, sane_, shape_.vocabulary));
      gpu->wait();
    }
    return *queues_[number];
  }

  // Sequences with different alphas.
  void step_singly(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                   View<float> logits) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Rwkv7::Scored alone[] = {{tokens.subspan(i, 1), {}, states[i], {}}};
      read({alone, Rwkv7::Logits::last, logits.part(0, int64_t(i), 1)});
    }
  }

  // Where the states of a reading's sequences lie side by side, as a block has them.
  struct Memory {
    float *shifts, *memory;
  };
  enum class Direction { gather, scatter };

  // One sequence has its numbers so; of several they are copied there.
  Memory side_by_side(std::span<const Rwkv7::Scored> sequences) {
    const auto count = int64_t(sequences.size());
    float* numbers = states_->numbers_of(*sequences[0].state);
    if (count > 1) {
      const int64_t room = count * (states_->shift_floats() + states_->memory_floats());
      if (beside_.elements() < room)
        beside_ = GpuTensor<float>(*gpu_, {room}, "the states of sequences side by side");
      numbers = beside_.data();
    }
    return {numbers, numbers + count * states_->shift_floats()};
  }
  void move(std::span<const Rwkv7::Scored> sequences, const Memory& memory, Direction direction) {
    const auto count = uint64_t(sequences.size());
    if (count == 1) return;
    const auto rows = [&](float* beside, float* own, int64_t floats, int64_t number) {
      const uint64_t bytes = uint64_t(floats) * sizeof(float);
      const GpuRows together{beside, count * bytes}, alone{own, bytes};
      if (direction == Direction::gather)
        copy_rows_on_gpu(together, alone, bytes, number, *gpu_);
      else
        copy_rows_on_gpu(alone, together, bytes, number, *gpu_);
    };
    const int64_t heads = states_->memory_floats() / shape_.layers;
    for (size_t i = 0; i < sequences.size(); ++i) {
      float* const own = states_->numbers_of(*sequences[i].state);
      rows(memory.shifts + int64_t(i) * shape_.channels, own, shape_.channels, 2 * shape_.layers);
      rows(memory.memory + int64_t(i) * heads, own + states_->shift_floats(), heads, shape_.layers);
    }
  }

  void read(const Reading& reading) {
    const Memory memory = side_by_side(reading.sequences);
    move(reading.sequences, memory, Direction::gather);
    const int64_t count = reading.time(), begun = reading.sequences[0].state->position;
    if (count == 0) return;
    for (const Rwkv7::Scored& one : reading.sequences) one.state->changed_on_device();
    alphas_.begin(reading.sequences);
    int64_t from = 0;
    for (size_t block = 0; from < count; ++block) {
      const int64_t some = std::min(tokens_at_once(begun + from, count - from, reading.count()),
                                    alphas_.until_next_look(begun + from));
      Queue<Real>& mine = queue(block % 2);
      const Queue<Real>* const before = block > 0 ? &queue((block + 1) % 2) : nullptr;
      hand_over(mine, reading);
      ask(mine, before, from, some, memory, reading);
      from += some;
    }
    // The older block first.
    for (size_t i = 0; i < queues_.size(); ++i)
      for (const std::unique_ptr<Queue<Real>>& q : queues_)
        if (q->block && is_oldest(*q)) hand_over(*q, reading);
    alphas_.end(reading.sequences);
    for (const Rwkv7::Scored& one : reading.sequences) one.state->position += count;
    if (reading.count() == 1) return;
    move(reading.sequences, memory, Direction::scatter);
    gpu_->wait();
  }
  bool is_oldest(const Queue<Real>& q) const {
    return std::ranges::all_of(
        queues_, [&](const auto& other) { return !other->block || other->from >= q.from; });
  }

  void ask(Queue<Real>& q, const Queue<Real>* before, int64_t from, int64_t some,
           const Memory& memory, const Reading& reading) {
    GpuLane<Real>& lane = q.lane;
    GpuBlock block;
    block.rows = RowBlock{reading.count(), some, shape_.channels};
    block.position = reading.sequences[0].state->position + from;
    block.shifts = memory.shifts, block.memory = memory.memory;
    block.alphas = alphas_.now();
    block.follow = alphas_.look_after(block.position + some);
    if (sane_.kind != SaneKind::none)
      block.chunks = kernel::chunks_ending(block.position, some, sane_.chunk);
    for (int64_t i = 0; i < reading.count(); ++i) {
      const Rwkv7::Scored& one = reading.sequences[size_t(i)];
      std::copy_n(one.tokens.begin() + from, some, q.tokens.template as<int32_t>() + i * some);
      if (reading.has_targets())
        std::copy_n(one.targets.begin() + from, some, q.targets.template as<int32_t>() + i * some);
    }
    const uint64_t bytes = uint64_t(block.rows.rows()) * sizeof(int32_t);
    copy_to_gpu(lane.ws.tokens.data(), q.tokens.template as<int32_t>(), bytes, *lane.gpu);
    if (reading.has_targets())
      copy_to_gpu(lane.ws.targets.data(), q.targets.template as<int32_t>(), bytes, *lane.gpu);
    lane.embed(block);
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      if (before) before->layer_done[size_t(layer)].let_wait(lane.gpu->stream());
      lane.layer(layer, block);
      q.layer_done[size_t(layer)].record(*lane.gpu);
    }
    if (reading.has_targets()) ask_losses(q, block.rows.rows());
    if (reading.has_taus() && block.chunks > 0)
      copy_to_host(
          q.taus.template as<float>(), lane.ws.tau.data(),
          uint64_t(shape_.layers * reading.count() * block.chunks * shape_.heads) * sizeof(float),
          *lane.gpu);
    q.block = block, q.from = from;
    const bool is_last = from + some == reading.time();
    if (reading.wanted == Rwkv7::Logits::last && is_last)
      copy_logits(q, some - 1, 1, reading.logits.data);
    if (reading.wanted == Rwkv7::Logits::all)
      copy_logits(q, 0, some, reading.logits.data + from * shape_.vocabulary);
  }

  void ask_losses(Queue<Real>& q, int64_t some) {
    GpuLane<Real>& lane = q.lane;
    for (int64_t at = 0; at < some; at += lane.ws.slice) {
      const int64_t rows = std::min(lane.ws.slice, some - at);
      lane.logits(at, rows);
      kernel::cuda::CrossEntropy<float> op{};
      op.rows = rows, op.vocabulary = shape_.vocabulary, op.logits = lane.ws.logits.data();
      op.target = lane.ws.targets.data() + at;
      op.loss = lane.ws.loss.data() + at;
      op.with_gradient = false;
      kernel::cuda::cross_entropy(op, *lane.gpu);
    }
    copy_to_host(q.losses.template as<double>(), lane.ws.loss.data(),
                 uint64_t(some) * sizeof(double), *lane.gpu);
  }

  void copy_logits(Queue<Real>& q, int64_t first, int64_t rows, float* to) {
    GpuLane<Real>& lane = q.lane;
    for (int64_t at = 0; at < rows; at += lane.ws.slice) {
      const int64_t some = std::min(lane.ws.slice, rows - at);
      lane.logits(first + at, some);
      copy_to_host(to + at * shape_.vocabulary, lane.ws.logits.data(),
                   uint64_t(some * shape_.vocabulary) * sizeof(float), *lane.gpu);
    }
    lane.gpu->wait();
  }

  // Waits for the block in a queue, if there is one, and takes what it found.
  void hand_over(Queue<Real>& q, const Reading& reading) {
    if (!q.block) return;
    const GpuBlock block = *q.block;
    q.block.reset();
    q.lane.gpu->wait();
    const int64_t numbers = block.chunks * shape_.heads;
    for (int64_t i = 0; i < reading.count(); ++i) {
      const Rwkv7::Scored& one = reading.sequences[size_t(i)];
      if (reading.has_targets())
        std::copy_n(q.losses.template as<double>() + i * block.rows.time, block.rows.time,
                    one.losses.begin() + q.from);
      if (!one.taus) continue;
      for (int64_t layer = 0; layer < shape_.layers; ++layer)
        one.taus->add(layer, {q.taus.template as<float>() + (layer * reading.count() + i) * numbers,
                              size_t(numbers)});
    }
  }

  // Sequences that the decoder does not take, all with the alphas of the first.
  void step_many(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                 const typename GpuManyDecoder<Real>::Take& take) {
    const Rwkv7::Scored first[] = {{{}, {}, states[0], {}}};
    alphas_.begin(first);
    if (!many_) many_.emplace(gpu_, weights_, sane_, shape_.vocabulary);
    many_->step(singles(tokens, states), alphas_.now(), take);
  }

  Rwkv7Shape shape_;
  GpuSane sane_;
  std::shared_ptr<const Gpu> gpu_;
  Rwkv7GpuWeights<Real> weights_;
  std::shared_ptr<GpuStates> states_;
  std::vector<std::unique_ptr<Queue<Real>>> queues_;
  std::optional<GpuDecoder<Real>> decoder_;
  std::optional<GpuManyDecoder<Real>> many_;
  GpuPicks picks_;
  GpuAlphas alphas_;         // of what is read
  GpuTensor<float> beside_;  // states of several sequences that are read
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Rwkv7OnGpu> Rwkv7OnGpu::open(const Rwkv7Checkpoint& checkpoint,
                                             const Rwkv7Shape& shape, const SaneUse& sane,
                                             const Options& options) {
  expect_for_gpu(shape, sane);
  if (options.numbers == Numbers::f32)
    return std::make_unique<Model<float>>(checkpoint, shape, sane, options.gpu);
  return std::make_unique<Model<bf16>>(checkpoint, shape, sane, options.gpu);
}

}  // namespace deltasane
