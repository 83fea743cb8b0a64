// RWKV-7 for inference: weights in the type they are computed with, and the forward pass with the
// state carried. On a GPU all of it is done by Rwkv7OnGpu (gpu/model.h), and the CPU stays idle.
//
// The equations are in src/kernel/time_mix/time_mix.h and src/kernel/delta_rule/delta_rule.h; this file
// only puts them in order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernel/matmul/matmul.h"
#include "model/cpu/embedding_table.h"
#include "model/cpu/forward_passes.h"
#include "model/registry.h"
#include "model/rwkv7/checkpoint/checkpoint.h"

namespace deltasane {

class Rwkv7OnGpu;

class Rwkv7 : public LanguageModel {
 public:
  Rwkv7(Rwkv7Checkpoint checkpoint, const OpenOptions& options);

  const Rwkv7Shape& shape() const { return shape_; }
  const Rwkv7Checkpoint& checkpoint() const override { return checkpoint_; }
  std::vector<NamedMatrix> matrices() const override;
  std::string weight_type() const override { return weight_type_; }
  uint64_t weight_bytes() const override;
  uint64_t read_bytes() const override;  // all but the embedding
  std::string gpu_name() const override;
  uint64_t gpu_resident_bytes() const override;
  int64_t prefill_chunk() const override { return gpu_ ? 1 << 16 : 512; }
  Tensor<float> allocate_logits(int64_t rows) const override;

 protected:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override;
  void run_beside(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
                  const Beside& beside) const override;

 private:
  using Vector = Tensor<float>;
  struct Norm {
    Vector weight, bias;
  };
  struct LowRankWeights {  // x down' up', with `down` and `up` as (out, in)
    kernel::Weights down, up;
  };
  struct Layer {
    Norm ln1, ln2, ln_x;
    std::array<Vector, 6> mu;  // of the mixes r w k v a g
    Vector ffn_mu, w0, a0, v0, k_k, k_a, r_k;
    kernel::Weights receptance, key, value, output, ffn_key, ffn_value;
    LowRankWeights w, a, g;
    std::optional<LowRankWeights> v;  // not in the first layer
    Vector x_tau;
    std::optional<kernel::Weights> w_tau;  // (head, channel)
  };
  class Rows;      // the tokens of one forward pass, and whose they are
  struct Scratch;  // its activations
  class Pass;      // both, and how the threads share the work
  class Block;     // the steps of a layer (block.h) in a pass
  class BlockPart;

  void load_on_cpu();
  void load_on_gpu(bool stored_types);
  Layer load_layer(int64_t index) const;
  kernel::Weights load_matrix(const std::string& name) const;
  LowRankWeights load_low_rank(const std::string& down, const std::string& up) const;
  Norm load_norm(const std::string& name) const;
  void embed(std::span<const int32_t> tokens, View<float> x, const kernel::Cpu& cpu) const;
  bool heads_apart(int64_t rows, const kernel::Cpu& cpu) const;
  void run_layers(Pass& pass, Logits wanted, View<float> logits) const;
  void run_rows(const Rows& rows, std::span<const int32_t> tokens, Logits wanted,
                View<float> logits, const kernel::Cpu& cpu) const;

  Rwkv7Checkpoint checkpoint_;
  Rwkv7Shape shape_;
  std::optional<kernel::WeightType> wanted_;
  std::string weight_type_;
  std::unique_ptr<kernel::WeightMemory> memory_;  // of the matrices
  EmbeddingTable embedding_;
  std::optional<Norm> ln0_;
  std::vector<Layer> layers_;
  Norm ln_out_;
  std::optional<kernel::Weights> head_;
  std::shared_ptr<Rwkv7OnGpu> gpu_;  // then nothing of the weights is here
};

}  // namespace deltasane
