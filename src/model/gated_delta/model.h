// A model of the delta-rule family for inference on the CPU: weights in the type they are computed
// with, and the forward pass with the state carried. block.h has the order of a layer's operators.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernel/matmul/matmul.h"
#include "model/cpu/embedding_table.h"
#include "model/cpu/forward_passes.h"
#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/registry.h"

namespace deltasane::gated_delta {

using Vector = Tensor<float>;
using Matrix = std::optional<kernel::Weights>;  // where a model has it
using Matrices = std::vector<kernel::Weights>;

struct RecurrentWeights {
  Matrix qkv, beta, decay, decay_down, decay_up, gate, gate_down, gate_up, output;
  Vector convolution;  // (taps, channel); one tap of 1 where there is no convolution
  Vector decay_rate, decay_bias, gate_bias, output_norm;
  Matrix w_tau;  // (head, channel)
};

struct AttentionWeights {
  Matrix q, gate, k, v, output;
  Vector q_norm, k_norm;
};

struct LatentWeights {
  Matrix q, kv_down, output;
  Vector kv_norm;
  Matrices k_up, v_up;  // of each head: (latent, key), (value, latent)
};

struct NetworkWeights {
  Matrix gate, up, down;
};

struct ExpertWeights {
  Matrix router, shared_gate;
  Vector router_bias;
  Matrices gate, up, down;
  NetworkWeights shared;
};

struct LayerWeights {
  Mixer mixer = Mixer::recurrent;
  bool norms_after = false;
  Vector mixer_norm, ffn_norm;  // before their halves, or after them
  RecurrentWeights recurrent;
  AttentionWeights attention;
  LatentWeights latent;
  std::optional<ExpertWeights> experts;
  NetworkWeights ffn;                                  // where there are no experts
  const StatePart *memory = nullptr, *inputs = nullptr, *cache = nullptr;  // of the state
};

class Model : public LanguageModel {
 public:
  Model(Checkpoint checkpoint, const OpenOptions& options);

  const Checkpoint& checkpoint() const override { return checkpoint_; }
  std::string weight_type() const override { return weight_type_; }
  uint64_t weight_bytes() const override { return held_bytes_ + embedding_.bytes(); }
  uint64_t read_bytes() const override { return read_bytes_; }
  int64_t prefill_chunk() const override { return 512; }
  int64_t cached_tokens(int64_t position) const override;

 protected:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override;

 private:
  class Loader;
  class Block;
  const Config& config() const { return config_; }
  void expect_caches(const SequenceState& state) const;
  void drop_rows(SequenceState& state, int64_t before) const;
  void run_pass(const ForwardPass& pass, const kernel::Cpu& cpu) const;

  Checkpoint checkpoint_;
  Config config_;                                 // the checkpoint's, with the window in use
  bool drops_rows_ = false;                       // of caches that the window has left
  std::unique_ptr<kernel::WeightMemory> memory_;  // of the matrices
  std::string weight_type_;
  uint64_t held_bytes_ = 0;  // of all matrices
  uint64_t read_bytes_ = 0;  // of those that one token needs
  EmbeddingTable embedding_;
  std::vector<LayerWeights> layers_;
  Vector norm_;
  Matrix head_;
};

}  // namespace deltasane::gated_delta
