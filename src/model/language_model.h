// A language model of any architecture, ready to run: what infer, probe, eval, train and cli see.
//
// `forward` takes a ragged batch: any number of sequences, each with its own tokens, position and
// state, prompts and single tokens mixed, and says for each what is wanted. On the CPU a sequence
// of several tokens is computed as if it were alone. Single tokens of several sequences share their
// matrix products; products of few rows (kernel::matmul_few_tokens) add in another order than those
// of many. On a GPU sequences share products wherever they can.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernel/cpu_device.h"
#include "kernel/matmul/weight_type.h"
#include "kernel/sampler/sampler.h"
#include "model/adaptive_sane.h"
#include "model/device.h"
#include "model/log_probability.h"
#include "model/model_checkpoint.h"
#include "model/sane.h"
#include "model/state/sequence_state.h"
#include "model/tau_record.h"

namespace deltasane {

namespace kernel {
class Weights;
}

enum class Want {
  nothing,                // the state alone
  last_logits,            // logits: (1, vocabulary)
  all_logits,             // logits: (tokens, vocabulary)
  losses,                 // losses: -log p of each target
  top_log_probabilities,  // top: the `top_count` likeliest after each token, the likeliest first;
                          // where there are targets, losses, too
  sample                  // sampled: drawn by the sampler from the last logits
};

// One sequence of a forward call. Views and spans are the caller's memory.
struct SequenceInput {
  std::span<const int32_t> tokens{};  // every id is in the vocabulary
  SequenceState* state = nullptr;     // read, and carried on
  Want want = Want::nothing;

  View<float> logits{};                    // last_logits, all_logits; sample: room for them, or absent
  std::span<const int32_t> targets{};      // losses: the token that follows each
  std::span<double> losses{};              // (tokens)
  std::span<TokenLogProbability> top{};    // (tokens, top_count)
  int64_t top_count = 0;
  Sampler* sampler = nullptr;              // sample
  // sample: the token; where a logit is NaN or +inf, that one, and the sampler stays as it was
  kernel::SampledToken* sampled = nullptr;

  TauRecord* taus = nullptr;         // what SANE uses as tau is added here
  AdaptiveSane* adaptive = nullptr;  // sets the state's alphas on the way
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  const ModelDescription& description() const { return description_; }
  int64_t vocabulary() const { return description_.vocabulary; }
  const SaneUse& sane() const { return sane_; }
  const Device& device() const { return device_; }
  bool on_gpu() const { return device_.gpu.has_value(); }
  virtual const ModelCheckpoint& checkpoint() const = 0;
  uint64_t identity() const { return checkpoint().identity(); }  // reads the whole file

  // The matrices that may be quantized and are here, by their names in the checkpoint; none where an architecture does
  // not list them.
  struct NamedMatrix {
    std::string name;
    const kernel::Weights* weights;
  };
  virtual std::vector<NamedMatrix> matrices() const { return {}; }

  virtual std::string weight_type() const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual uint64_t read_bytes() const = 0;  // of the weights, for one token
  // On a GPU: its name, and how much of its memory is in use, by everybody.
  virtual std::string gpu_name() const { return {}; }
  virtual uint64_t gpu_resident_bytes() const { return 0; }

  const std::shared_ptr<const StateLayout>& state_layout() const { return layout_; }
  SequenceState fresh_state() const { return SequenceState(layout_); }
  // Rows that caches hold at a position: with a window fewer than tokens were read.
  virtual int64_t cached_tokens(int64_t position) const { return position; }
  // Of a sequence's state at a position.
  uint64_t state_bytes(int64_t position) const {
    return uint64_t(layout_->floats() + cached_tokens(position) * layout_->cache_floats()) *
           sizeof(float);
  }

  // A long input can be cut at positions that are multiples of this: cuts elsewhere may show in the
  // last bits.
  virtual int64_t tile() const { return 16; }
  // Tokens of a long input to read between two looks at the state, a multiple of the tile: enough to
  // keep the device busy.
  virtual int64_t prefill_chunk() const = 0;
  // (rows, vocabulary), where the device writes logits with the least delay. Any memory will do.
  virtual Tensor<float> allocate_logits(int64_t rows) const;

  void forward(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const;
  void forward(const SequenceInput& sequence, const kernel::Cpu& cpu) const {
    forward({&sequence, 1}, cpu);
  }
  // The same, and work of the host beside it: called once, on this thread, while a GPU computes, or
  // before the CPU does. It may copy states, but not those of the batch.
  using Beside = std::function<void()>;
  void forward(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
               const Beside& beside) const;

 protected:
  LanguageModel(ModelDescription description, StateLayout layout, const SaneUse& sane,
                const Device& device);

  // As forward. Arguments are checked: shapes, ids, states of this model, no state twice.
  virtual void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const = 0;
  virtual void run_beside(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
                          const Beside& beside) const {
    beside();
    run(batch, cpu);
  }

 private:
  void check(const SequenceInput& sequence) const;
  void check(std::span<const SequenceInput> batch) const;

  ModelDescription description_;
  std::shared_ptr<const StateLayout> layout_;
  SaneUse sane_;
  Device device_;
};

// The sum of losses of `targets` after `tokens`; `losses` takes each.
double score(const LanguageModel& model, std::span<const int32_t> tokens,
             std::span<const int32_t> targets, SequenceState& state, std::span<double> losses,
             const kernel::Cpu& cpu, TauRecord* taus = nullptr);

}  // namespace deltasane
