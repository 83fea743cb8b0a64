#include "model/gated_delta/gpu/model.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "model/gated_delta/gpu/executor.h"
#include "model/gpu/sampling.h"
#include "model/state/cache_window.h"
#include "tensor/cuda/graph.h"

namespace deltasane::gated_delta {
namespace {

constexpr int64_t block_rows = 4096;    // of prompts, taken at a time
constexpr int64_t most_prompts = 1024;  // in a block
constexpr int64_t tile_tokens = 16;     // blocks end on its multiples, so that the cut leaves no trace

void expect_for_gpu(const Config& c, const std::string& where) {
  const auto expect_size = [&](const char* what, int64_t size) {
    constexpr int64_t most = kernel::cuda::most_attention_channels;
    if (size > most)
      fail(Fault::usage, where, ": expected ", what, " of up to ", most, " channels for a GPU, found ",
           size, "; use the device cpu");
  };
  if (c.has(Mixer::attention)) expect_size("heads of attention", c.head_size);
  if (c.has(Mixer::latent))
    expect_size("rows of latent attention", c.latent_size + c.shared_key_size);
  const int64_t before = (c.taps > 1 ? c.taps - 1 : 0) * c.mixed_channels();
  if (c.has(Mixer::recurrent) &&
      (before % 4 != 0 || c.value_channels() * c.key_size % 4 != 0 || c.channels % 8 != 0))
    fail(Fault::usage, where, ": expected channels in multiples of 8 and states in multiples of 4 ",
         "numbers for a GPU, found ", c.channels, " channels, ", c.mixed_channels(),
         " of the convolution and heads of ", c.value_size, "x", c.key_size,
         "; use the device cpu");
}

bool is_single(const SequenceInput& one) {
  return one.tokens.size() == 1 && !one.taus && !one.adaptive && one.want != Want::losses &&
         one.want != Want::top_log_probabilities;
}

template <class Real>
class GpuModel : public LanguageModel {
 public:
  GpuModel(Checkpoint checkpoint, const OpenOptions& options)
      : LanguageModel(checkpoint.describe(), checkpoint.state_layout(),
                      chosen_sane(checkpoint.sane(), options.sane, checkpoint.where()),
                      options.device),
        checkpoint_(std::move(checkpoint)),
        config_(with_window(checkpoint_.config(), options.attention_window)),
        storage_(storage_of(config_, options)),
        gpu_(std::make_shared<const Gpu>(*options.device.gpu)),
        weights_(checkpoint_, config_, *gpu_),
        states_(std::make_shared<GpuStates>(gpu_, *state_layout(), storage_)) {}

  const Checkpoint& checkpoint() const override { return checkpoint_; }
  std::string weight_type() const override { return sizeof(Real) == 4 ? "f32" : "bf16"; }
  uint64_t weight_bytes() const override { return weights_.bytes; }
  uint64_t read_bytes() const override { return weights_.bytes - weights_.embedding_bytes; }
  std::string gpu_name() const override { return gpu_->properties().name; }
  uint64_t gpu_resident_bytes() const override {
    return gpu_->properties().memory_bytes - gpu_->free_bytes();
  }
  int64_t prefill_chunk() const override { return int64_t{1} << 16; }
  int64_t cached_tokens(int64_t position) const override {
    return position - dropped_at(position);
  }
  Tensor<float> allocate_logits(int64_t rows) const override {
    gpu_->make_current();
    const Shape shape{rows, vocabulary()};
    return {shape, pinned_memory(Tensor<float>::bytes_of(shape))};
  }

 protected:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override {
    run_beside(batch, cpu, [] {});
  }

  // The first tokens that are sampled are enqueued before the host does anything else.
  void run_beside(std::span<const SequenceInput> batch, const kernel::Cpu&,
                  const Beside& beside) const override {
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    std::vector<const SequenceInput*> singles, sampled, unread, prompts;
    for (const SequenceInput& one : batch)
      if (is_single(one))
        (one.want == Want::sample    ? sampled
         : one.want == Want::nothing ? unread
                                     : singles).push_back(&one);
      else if (!one.tokens.empty())
        prompts.push_back(&one);
    for (const SequenceInput& one : batch) expect_caches(*one.state);
    const Inputs first = Inputs(sampled).first(std::min(sampled.size(), size_t(block_rows)));
    // Tokens after which nothing is wanted go with those that are sampled.
    std::vector<const SequenceInput*> stepped(first.begin(), first.end());
    const bool fits = !first.empty() && first.size() + unread.size() <= size_t(block_rows);
    std::vector<const SequenceInput*>& with = fits ? stepped : singles;
    with.insert(with.end(), unread.begin(), unread.end());
    if (!first.empty()) begin_samples(stepped, int64_t(first.size()));
    beside();
    read(prompts);
    if (!first.empty()) sampling_.end(first, vocabulary(), *gpu_);
    in_blocks(Inputs(sampled).subspan(first.size()), [&](Inputs some) {
      begin_samples(some, int64_t(some.size()));
      sampling_.end(some, vocabulary(), *gpu_);
    });
    in_blocks(singles, [&](Inputs some) { step(some); });
  }

 private:
  using Inputs = std::span<const SequenceInput* const>;
  using Executor = GpuExecutor<Real>;

  static GpuCacheStorage storage_of(const Config& c, const OpenOptions& options) {
    GpuCacheStorage storage;
    if (sizeof(Real) == 2) storage.numbers = GpuCacheStorage::Numbers::bf16;
    if (!options.attention_window) return storage;
    storage.window = c.window, storage.fixed = cache_tile;
    // All that a block's tokens see, and all that a state on the host has.
    storage.ring = c.window + 2 * cache_tile + block_rows;
    return storage;
  }

  // A state that was made with another window, on the host, lacks rows or has some too many.
  void expect_caches(const SequenceState& state) const {
    if (state.on_device() || state.is_fresh()) return;
    expect_cached_rows(state, dropped_at(state.position));
  }
  int64_t dropped_at(int64_t position) const {
    return storage_.ring ? dropped_rows(position, storage_.window) : 0;
  }

  struct Reading {
    const SequenceInput* in;
    int64_t done = 0;  // tokens
    int64_t left() const { return int64_t(in->tokens.size()) - done; }
  };

  // Tokens of the next block, of which there is room for `room` more.
  static int64_t next_tokens(const Reading& one, int64_t room) {
    const int64_t position = one.in->state->position;
    int64_t count = std::min(one.left(), room);
    if (one.in->adaptive) count = std::min(count, AdaptiveSane::until_next(position));
    if (count < one.left()) count -= (position + count) % tile_tokens;
    return std::max<int64_t>(count, 0);
  }

  void read(Inputs inputs) const {
    std::vector<Reading> all;
    for (const SequenceInput* one : inputs) {
      require(!one->adaptive || one->want == Want::losses,
              "SANE's strength follows a sequence whose losses are taken");
      all.push_back({one});
    }
    while (!all.empty()) {
      std::vector<GpuInput> block;
      std::vector<size_t> whose;
      int64_t rows = 0;
      for (size_t i = 0; i < all.size() && int64_t(block.size()) < most_prompts; ++i) {
        const int64_t count = next_tokens(all[i], block_rows - rows);
        if (count == 0) continue;
        const SequenceInput& one = *all[i].in;
        block.push_back({one.tokens.subspan(size_t(all[i].done), size_t(count)), one.state,
                         one.taus});
        whose.push_back(i);
        rows += count;
      }
      read_block(block, whose, all);
      std::erase_if(all, [](const Reading& one) { return one.left() == 0; });
    }
  }

  void read_block(std::span<const GpuInput> block, std::span<const size_t> whose,
                  std::vector<Reading>& all) const {
    Executor& executor = prompt_executor();
    executor.set(block, *states_);
    executor.run();
    int64_t row = 0;
    std::vector<const SequenceInput*> ended;  // that want their last logits
    for (size_t i = 0; i < block.size(); ++i) {
      Reading& reading = all[whose[i]];
      const SequenceInput& one = *reading.in;
      const auto count = int64_t(block[i].tokens.size());
      take_all(executor, one, row, reading.done, count);
      reading.done += count;
      one.state->changed_on_device();
      one.state->position += count;
      if (reading.left() == 0 && (one.want == Want::last_logits || one.want == Want::sample)) {
        executor.keep_row(row + count - 1, int64_t(ended.size()));
        ended.push_back(&one);
      }
      row += count;
    }
    take_last(executor, ended);
    executor.record_taus();
    gpu_->wait();
    for (const size_t i : whose)
      if (all[i].in->adaptive) all[i].in->adaptive->follow(*all[i].in->state, sane().alpha);
  }

  // What is wanted of every token: of the rows from `row` on, the tokens from `from` on.
  void take_all(Executor& executor, const SequenceInput& one, int64_t row, int64_t from,
                int64_t count) const {
    if (one.want == Want::losses)
      return executor.losses(row, one.targets.subspan(size_t(from), size_t(count)),
                             one.losses.subspan(size_t(from), size_t(count)));
    if (one.want != Want::all_logits && one.want != Want::top_log_probabilities) return;
    const bool keeps = one.want == Want::all_logits;
    Tensor<float> held;
    if (!keeps) held = Tensor<float>({std::min(executor.slice(), count), vocabulary()});
    for (int64_t at = 0; at < count; at += executor.slice()) {
      const int64_t some = std::min(executor.slice(), count - at);
      float* const to = keeps ? one.logits.data + (from + at) * vocabulary() : held.data();
      copy_to_host(to, executor.logits(row + at, some),
                   uint64_t(some * vocabulary()) * sizeof(float), *gpu_);
      gpu_->wait();
      for (int64_t t = 0; !keeps && t < some; ++t)
        take_top({to + t * vocabulary(), size_t(vocabulary())},
                 one.top.subspan(size_t((from + at + t) * one.top_count), size_t(one.top_count)));
    }
  }

  void take_last(Executor& executor, Inputs ended) const {
    const auto all = int64_t(ended.size());
    Tensor<float> held;  // of samplers that brought no room
    for (int64_t at = 0; at < all; at += executor.slice()) {
      const int64_t some = std::min(executor.slice(), all - at);
      const float* const logits = executor.logits_of_kept(at, some);
      for (int64_t i = 0; i < some; ++i) {
        const SequenceInput& one = *ended[size_t(at + i)];
        if (!one.logits && held.elements() == 0) held = Tensor<float>({1, vocabulary()});
        float* const to = one.logits ? one.logits.data : held.data();
        copy_to_host(to, logits + i * vocabulary(), uint64_t(vocabulary()) * sizeof(float), *gpu_);
        gpu_->wait();
        if (one.want == Want::sample)
          *one.sampled = one.sampler->sample({to, size_t(vocabulary())}, one.state->position);
      }
    }
  }

  template <class Step>
  static void in_blocks(Inputs all, const Step& step) {
    for (size_t from = 0; from < all.size(); from += size_t(block_rows))
      step(all.subspan(from, std::min(all.size() - from, size_t(block_rows))));
  }

  // One token of each; take(from, rows, logits on the GPU) is called for slices of them.
  template <class Take>
  void step_and_take(Inputs inputs, const Take& take) const {
    const auto count = int64_t(inputs.size());
    Executor& executor = single_executor(count);
    std::vector<GpuInput> block;
    for (const SequenceInput* one : inputs) block.push_back({one->tokens, one->state, nullptr});
    executor.set(block, *states_);
    const bool wanted = std::ranges::any_of(
        inputs, [](const auto* one) { return one->want != Want::nothing; });
    const bool at_once = wanted && count <= executor.slice();
    run_or_repeat(executor, count, at_once);
    if (at_once) take(0, count, executor.last_logits());
    for (int64_t at = 0; wanted && !at_once && at < count; at += executor.slice()) {
      const int64_t some = std::min(executor.slice(), count - at);
      take(at, some, executor.logits(at, some));
    }
    for (const SequenceInput* one : inputs)
      one->state->changed_on_device(), ++one->state->position;
  }

  void step(Inputs inputs) const {
    const auto count = int64_t(inputs.size());
    // Where rows of logits follow each other in the caller's memory, they are copied at once.
    bool in_place = true;
    for (int64_t i = 0; i < count; ++i) {
      const View<float>& row = inputs[size_t(i)]->logits;
      in_place = in_place && row && row.data == inputs[0]->logits.data + i * vocabulary();
    }
    const auto copy = [&](float* to, const float* from, int64_t rows) {
      copy_to_host(to, from, uint64_t(rows * vocabulary()) * sizeof(float), *gpu_);
    };
    step_and_take(inputs, [&](int64_t from, int64_t rows, const float* logits) {
      if (in_place) return copy(inputs[0]->logits.data + from * vocabulary(), logits, rows);
      for (int64_t i = 0; i < rows; ++i)
        if (const SequenceInput& one = *inputs[size_t(from + i)]; one.want != Want::nothing)
          copy(one.logits.data, logits + i * vocabulary(), 1);
    });
    gpu_->wait();
  }

  // The first `sampled` of them are.
  void begin_samples(Inputs inputs, int64_t sampled) const {
    sampling_.begin(inputs.first(size_t(sampled)), *gpu_);
    step_and_take(inputs, [&](int64_t from, int64_t rows, float* logits) {
      const int64_t some = std::min(rows, sampled - from);
      if (some > 0) sampling_.sample(from, some, vocabulary(), logits, *gpu_);
    });
  }

  void run_or_repeat(Executor& executor, int64_t count, bool with_logits) const {
    const auto work = [&executor, count, with_logits] {
      executor.run();
      if (with_logits) executor.logits(0, count);
    };
    if (!executor.can_repeat()) return work();
    if (captured_with_ != executor.scratch() || captured_.size() > most_captured)
      captured_.clear(), captured_with_ = executor.scratch();
    const auto [place, is_new] = captured_.try_emplace({count, with_logits});
    if (is_new) return work();  // as it is: kernels are loaded when they are first used
    if (!place->second) place->second = GpuGraph(*gpu_, work);
    place->second.run(*gpu_);
  }

  Executor& prompt_executor() const {
    if (!prompts_)
      prompts_ = std::make_unique<Executor>(gpu_, weights_, sane(), storage_, block_rows);
    return *prompts_;
  }
  Executor& single_executor(int64_t count) const {
    if (!singles_ || singles_->capacity() < count) {
      captured_.clear(), singles_.reset();
      singles_ = std::make_unique<Executor>(gpu_, weights_, sane(), storage_,
                                            std::min((count + 63) / 64 * 64, block_rows));
    }
    return *singles_;
  }

  static constexpr size_t most_captured = 64;
  Checkpoint checkpoint_;
  Config config_;  // the checkpoint's, with the window in use
  GpuCacheStorage storage_;
  std::shared_ptr<const Gpu> gpu_;
  GpuWeights<Real> weights_;
  std::shared_ptr<GpuStates> states_;
  // Made when they are first needed; of whoever has the mutex.
  mutable std::unique_ptr<Executor> prompts_, singles_;
  // By number of sequences, and whether with their logits; empty for what came once.
  mutable std::map<std::pair<int64_t, bool>, GpuGraph> captured_;
  mutable const void* captured_with_ = nullptr;
  mutable GpuSampling sampling_;
  mutable std::mutex mutex_;
};

}  // namespace

std::unique_ptr<LanguageModel> open_on_gpu(Checkpoint checkpoint, const OpenOptions& options) {
  using kernel::WeightType;
  expect_for_gpu(checkpoint.config(), checkpoint.where());
  if (options.stored_types)
    fail(Fault::usage, "weights on a GPU: expected f32 or bf16, found those of the file");
  const WeightType type = options.weights.value_or(WeightType::bf16);
  if (type == WeightType::f32)
    return std::make_unique<GpuModel<float>>(std::move(checkpoint), options);
  if (type != WeightType::bf16)
    fail(Fault::usage, "weights on a GPU: expected f32 or bf16, found ", name_of(type));
  return std::make_unique<GpuModel<bf16>>(std::move(checkpoint), options);
}

}  // namespace deltasane::gated_delta
