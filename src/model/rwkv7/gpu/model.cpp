#include "model/rwkv7/gpu/model.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "kernel/sane/tau.h"
#include "model/cpu/load_weights.h"
#include "model/gpu/quantized_matrix.h"
#include "model/gpu/sampling.h"
#include "model/rwkv7/gpu/decode.h"
#include "model/rwkv7/gpu/many.h"
#include "model/rwkv7/gpu/prefill.h"

namespace deltasane {
namespace {

GpuSane sane_on_gpu(const SaneUse& sane) {
  if (sane.kind == SaneKind::none) return {};
  return {sane.kind, sane.alpha, float(kernel::tau_at_zero(sane.alpha)), sane.chunk};
}

// What the kernels do not have. No GPU is needed to be told.
void expect_for_gpu(const Rwkv7Shape& shape, const SaneUse& sane) {
  if (shape.head_size != 64)
    fail(Fault::device, "a model on a GPU: expected heads of 64 channels, found ", shape.head_size,
         "; use the device cpu");
  if (sane.kind != SaneKind::none && sane.chunk % gpu_tile != 0)
    fail(Fault::device, "SANE on a GPU: expected a chunk that is a multiple of ", gpu_tile, ", found ",
         sane.chunk, "; use the device cpu");
}

template <class Real>
class Model : public Rwkv7OnGpu {
 public:
  Model(const Rwkv7Checkpoint& checkpoint, const Rwkv7Shape& shape, const SaneUse& sane,
        kernel::WeightType type, const Options& options)
      : shape_(shape),
        sane_(sane_on_gpu(sane)),
        gpu_(std::make_shared<const Gpu>(options.gpu)),
        weights_(checkpoint, shape, sane.kind, type, options.stored_types, *gpu_),
        states_(std::make_shared<GpuStates>(gpu_, checkpoint.state_layout())),
        alphas_(gpu_, shape.layers, shape.heads, sane.alpha),
        prefill_(gpu_, weights_, sane_, shape.vocabulary, states_, alphas_) {}

  Tensor<float> allocate_logits(int64_t rows) const override {
    gpu_->make_current();
    const Shape shape{rows, shape_.vocabulary};
    return {shape, pinned_memory(Tensor<float>::bytes_of(shape))};
  }

  // Tokens that are sampled here are enqueued first: the host enqueues the prompts while the GPU has
  // these, and takes what was sampled when it would wait anyway.
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
           const LanguageModel::Beside& beside) override {
    const std::lock_guard lock(mutex_);
    gpu_->make_current();
    Singles singles;
    std::vector<const SequenceInput*> prompts, unread;
    for (const SequenceInput& one : batch)
      if (is_single(one))
        (samples_here(one)     ? singles.sampled
         : is_unread(one)      ? unread
                               : singles.with_logits).push_back(&one);
      else
        prompts.push_back(&one);
    // Tokens after which nothing is wanted go with those that are sampled.
    std::vector<const SequenceInput*> stepped = singles.sampled;
    std::vector<const SequenceInput*>& with = stepped.empty() ? singles.with_logits : stepped;
    with.insert(with.end(), unread.begin(), unread.end());
    if (!stepped.empty()) begin_samples(stepped, int64_t(singles.sampled.size()));
    beside();
    for (const PrefillSet& set : prefill_sets(prompts, sane_.chunk, prefill_.lengths()))
      prefill_.read(set);
    if (!singles.sampled.empty()) sampling_.end(singles.sampled, shape_.vocabulary, *gpu_);
    step(singles.with_logits, cpu);
  }

  kernel::WeightType weight_type() const override { return weights_.type; }
  uint64_t weight_bytes() const override { return weights_.bytes; }
  uint64_t read_bytes() const override { return weights_.bytes - weights_.embedding_bytes; }
  uint64_t resident_bytes() const override {
    return gpu_->properties().memory_bytes - gpu_->free_bytes();
  }
  std::string gpu_name() const override { return gpu_->properties().name; }

 private:
  using Inputs = std::span<const SequenceInput* const>;
  struct Singles {
    std::vector<const SequenceInput*> sampled, with_logits;
  };

  static bool is_single(const SequenceInput& one) {
    return one.tokens.size() == 1 && !one.taus && !one.adaptive && one.want != Want::losses &&
           one.want != Want::top_log_probabilities;
  }
  // Alphas of their own are for logits only.
  static bool samples_here(const SequenceInput& one) {
    return one.want == Want::sample && one.state->alphas.empty();
  }

  static bool is_unread(const SequenceInput& one) {
    return one.want == Want::nothing && one.state->alphas.empty();
  }

  // As decoders take them.
  std::vector<SingleToken> singles_of(Inputs inputs) const {
    std::vector<SingleToken> all;
    for (const SequenceInput* one : inputs)
      all.push_back({one->tokens[0], one->state->position, states_->numbers_of(*one->state)});
    return all;
  }
  static void advance(Inputs inputs) {
    for (const SequenceInput* one : inputs) one->state->changed_on_device(), ++one->state->position;
  }

  // Made when it is first needed.
  GpuDecoder<Real>& decoder() {
    if (!decoder_) decoder_.emplace(gpu_, weights_, sane_, shape_.vocabulary);
    return *decoder_;
  }

  // Sequences that the decoder does not take, all with the alphas of the first.
  void step_many(Inputs inputs, const typename GpuManyDecoder<Real>::Take& take) {
    alphas_.begin(*inputs[0]->state);
    if (!many_) many_.emplace(gpu_, weights_, sane_, shape_.vocabulary,
                              states_->shift_floats() + states_->memory_floats());
    many_->step(singles_of(inputs), alphas_.now(), take);
  }

  // The first `sampled` of them are. Does not wait.
  void begin_samples(Inputs inputs, int64_t sampled) {
    sampling_.begin(inputs.first(size_t(sampled)), *gpu_);
    const auto sample = [&](int64_t from, int64_t rows, float* logits) {
      const int64_t some = std::min(rows, sampled - from);
      if (some > 0) sampling_.sample(from, some, shape_.vocabulary, logits, *gpu_);
    };
    if (decoder().takes(inputs.size()))
      sample(0, int64_t(inputs.size()), decoder().ask(singles_of(inputs)));
    else
      step_many(inputs, sample);
    advance(inputs);
  }

  // Sequences with equal alphas share a pass.
  void step(std::vector<const SequenceInput*> inputs, const kernel::Cpu& cpu) {
    while (!inputs.empty()) {
      const auto others = std::ranges::stable_partition(inputs, [&](const SequenceInput* one) {
        return one->state->alphas == inputs[0]->state->alphas;
      });
      step_together({inputs.begin(), others.begin()}, cpu);
      inputs = {others.begin(), others.end()};
    }
  }

  void step_together(Inputs inputs, const kernel::Cpu& cpu) {
    const auto count = int64_t(inputs.size());
    const int64_t vocabulary = shape_.vocabulary;
    const bool wanted =
        std::ranges::any_of(inputs, [](const auto* one) { return one->want != Want::nothing; });
    const bool samples =
        std::ranges::any_of(inputs, [](const auto* one) { return one->want == Want::sample; });
    const bool by_decoder =
        decoder().takes(inputs.size()) && inputs[0]->state->alphas.empty();
    // Where rows of logits follow each other in the caller's memory, they are written there.
    bool in_place = wanted;
    for (int64_t i = 0; i < count; ++i) {
      const View<float>& row = inputs[size_t(i)]->logits;
      in_place = in_place && row && row.data == inputs[0]->logits.data + i * vocabulary;
    }
    Tensor<float> own;
    if (wanted && !in_place) own = Tensor<float>({count, vocabulary});
    float* const logits = in_place ? inputs[0]->logits.data : own.data();
    if (by_decoder) {
      decoder().step(singles_of(inputs), wanted ? logits : nullptr);
    } else {
      step_many(inputs, [&](int64_t from, int64_t rows, const float* there) {
        if (wanted)
          copy_to_host(logits + from * vocabulary, there,
                       uint64_t(rows * vocabulary) * sizeof(float), *gpu_);
      });
      gpu_->wait();
    }
    advance(inputs);
    if (!wanted || (in_place && !samples)) return;
    cpu.threads.parallel(count, [&](int64_t i) {
      const SequenceInput& one = *inputs[size_t(i)];
      const float* const row = logits + i * vocabulary;
      if (one.want == Want::sample)
        *one.sampled = one.sampler->sample({row, size_t(vocabulary)}, one.state->position);
      else if (one.want != Want::nothing && !in_place)
        std::copy_n(row, vocabulary, one.logits.data);
    });
  }

  Rwkv7Shape shape_;
  GpuSane sane_;
  std::shared_ptr<const Gpu> gpu_;
  Rwkv7GpuWeights<Real> weights_;
  std::shared_ptr<GpuStates> states_;
  GpuAlphas alphas_;  // of the active sequences
  GpuPrefill<Real> prefill_;
  std::optional<GpuDecoder<Real>> decoder_;
  std::optional<GpuManyDecoder<Real>> many_;
  GpuSampling sampling_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Rwkv7OnGpu> Rwkv7OnGpu::open(const Rwkv7Checkpoint& checkpoint,
                                             const Rwkv7Shape& shape, const SaneUse& sane,
                                             const Options& options) {
  expect_for_gpu(shape, sane);
  auto type = weight_type_on_gpu(options.weights);
  if (options.stored_types)
    if (const auto stored = direct_type(checkpoint.type("blocks.0.ffn.key.weight")))
      if (is_quantized(*stored)) type = *stored;
  if (type == kernel::WeightType::f32)
    return std::make_unique<Model<float>>(checkpoint, shape, sane, type, options);
  return std::make_unique<Model<bf16>>(checkpoint, shape, sane, type, options);
}

}  // namespace deltasane
