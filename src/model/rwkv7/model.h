// RWKV-7 for inference: weights in the type they are computed with, and the forward pass over a
// block of tokens with the state carried. On a GPU all of it is done by Rwkv7OnGpu (rwkv7_gpu.h),
// and what a Cpu is given for stays idle.
//
// The equations are in src/kernel/rwkv7/rwkv7.h and src/kernel/delta_rule/delta_rule.h; this file
// only puts them in order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/rwkv7/checkpoint/checkpoint.h"
#include "kernel/matmul/matmul.h"
#include "kernel/sampler/cuda.h"
#include "model/adaptive_sane.h"
#include "model/device.h"
#include "model/recurrent_state.h"
#include "model/sane.h"
#include "model/tau_record.h"

namespace deltasane {

class Rwkv7OnGpu;

// What is to be picked from the logits of a step, on a GPU: one of each for every sequence.
struct Picks {
  std::span<const kernel::cuda::Picking> picking;
  std::span<const kernel::cuda::TokenPenalty> penalties;  // of all sequences
  std::span<kernel::cuda::Picked> picked;
};

struct Rwkv7Options {
  Device device = {};
  // none: as the file has them. On a GPU: f32, and everything else is bf16.
  std::optional<kernel::WeightType> weights;
  std::optional<double> sane_alpha;  // run-time SANE: w_tau = 0, tau = alpha ln 2 + 1
  bool without_sane = false;         // none at all, also for a trained one
};

class Rwkv7 {
 public:
  Rwkv7(Rwkv7Checkpoint checkpoint, const Rwkv7Options& options);

  const Rwkv7Shape& shape() const { return shape_; }
  const SaneUse& sane() const { return sane_; }
  const Rwkv7Checkpoint& checkpoint() const { return checkpoint_; }
  uint64_t identity() const { return checkpoint_.identity(); }  // reads the whole file
  uint64_t weight_bytes() const;
  uint64_t read_bytes() const;  // of the weights, for a token: all but the embedding
  std::string weight_type() const { return weight_type_; }
  const Device& device() const { return device_; }
  const Rwkv7OnGpu* on_gpu() const { return gpu_.get(); }  // null on the CPU
  // Tokens of a long input to read before looking at the state: enough to keep the device busy.
  int64_t reading_block() const { return gpu_ ? 1 << 16 : 512; }

  StateShape state_shape() const {
    return {shape_.layers, shape_.channels, shape_.heads, shape_.head_size};
  }
  RecurrentState fresh_state() const { return RecurrentState(state_shape()); }

  // Which tokens' logits are wanted.
  enum class Logits { none, last, all };

  // (rows, vocabulary), where the model's device writes them with the least delay. Any other memory
  // does, too.
  Tensor<float> room_for_logits(int64_t rows) const;

  // Reads tokens and carries the state on. logits: (tokens, vocabulary), (1, vocabulary) or absent.
  // Every id must be in the vocabulary. Long inputs are taken in blocks. What SANE uses as tau is
  // added to `taus` where that is given.
  void forward(std::span<const int32_t> tokens, RecurrentState& state, Logits wanted,
               View<float> logits, const kernel::Cpu& cpu, TauRecord* taus = nullptr) const;

  // Tokens of a sequence to read as forward does. losses: what each target, the token that came
  // next, costs: its negative log probability. Logits are not kept.
  struct Scored {
    std::span<const int32_t> tokens, targets;
    RecurrentState* state;
    std::span<double> losses;
    TauRecord* taus = nullptr;
    AdaptiveSane* adaptive = nullptr;  // sets the state's alphas on the way; for all or for none
  };
  // Several sequences side by side: all are at one position and have as many tokens. A GPU rounds
  // products of more rows differently; on the CPU each sequence is read as if it were alone.
  void read_and_score(std::span<const Scored> sequences, const kernel::Cpu& cpu) const;
  // One of them; returns the sum of losses.
  double read_and_score(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                        RecurrentState& state, std::span<double> losses, const kernel::Cpu& cpu,
                        TauRecord* taus = nullptr) const;

  // One token for each of several sequences; logits: (sequences, vocabulary).
  void step(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
            View<float> logits, const kernel::Cpu& cpu) const;
  // The same, with tokens picked from the logits where they are. False, and nothing is done, where
  // `step` is the way: on the CPU, and for states with alphas of their own.
  bool step_and_pick(std::span<const int32_t> tokens, std::span<RecurrentState* const> states,
                     const Picks& picks) const;

 private:
  using Vector = Tensor<float>;
  struct Norm {
    Vector weight, bias;
  };
  struct LowRank {  // x down' up', with `down` and `up` as (out, in)
    kernel::Weights down, up;
  };
  struct Layer {
    Norm ln1, ln2, ln_x;
    Vector x_r, x_w, x_k, x_v, x_a, x_g, w0, a0, v0, k_k, k_a, r_k, ffn_x_k;
    kernel::Weights receptance, key, value, output, ffn_key, ffn_value;
    LowRank w, a, g;
    std::optional<LowRank> v;  // not in the first layer
    Vector x_tau;
    std::optional<kernel::Weights> w_tau;  // (head, channel)
  };
  class Rows;      // the tokens of one forward pass, and whose they are
  struct Scratch;  // its activations
  class Pass;      // both, and how the threads share the work

  void load_on_cpu();
  void load_on_gpu();
  Layer load_layer(int64_t index) const;
  kernel::Weights load_matrix(const std::string& name) const;
  LowRank load_low_rank(const std::string& down, const std::string& up) const;
  Norm load_norm(const std::string& name) const;
  void expect_own(std::span<const int32_t> tokens, std::span<RecurrentState* const> states) const;
  void score_on_cpu(const Scored& sequence, const kernel::Cpu& cpu) const;
  void embed(std::span<const int32_t> tokens, View<float> x, const kernel::Cpu& cpu) const;
  void time_mix(int64_t layer, Pass& pass) const;
  void project(const Layer& layer, Pass& pass) const;
  void recur(int64_t layer, Pass& pass, size_t sequence, int64_t first_head, int64_t heads,
             const kernel::Cpu& cpu) const;
  Tensor<float> taus(const Layer& layer, const Pass& pass, size_t sequence,
                     const kernel::Cpu& cpu) const;
  void channel_mix(int64_t layer, Pass& pass) const;
  void keep_last(int64_t layer, int which, const Pass& pass) const;
  void go_through_layers(Pass& pass, Logits wanted, View<float> logits) const;
  void run(const Rows& rows, std::span<const int32_t> tokens, Logits wanted, View<float> logits,
           const kernel::Cpu& cpu) const;

  Rwkv7Checkpoint checkpoint_;
  Rwkv7Shape shape_;
  SaneUse sane_;
  Device device_;
  std::optional<kernel::WeightType> wanted_;
  std::string weight_type_;
  std::unique_ptr<kernel::WeightMemory> memory_;  // of the matrices
  std::optional<StoredTensor> embedding_rows_;    // in place in the file
  Tensor<float> embedding_;                       // or converted
  std::optional<Norm> ln0_;
  std::vector<Layer> layers_;
  Norm ln_out_;
  std::optional<kernel::Weights> head_;
  std::shared_ptr<Rwkv7OnGpu> gpu_;  // then nothing of the weights is here
};

}  // namespace deltasane
