// The toy, ready to run.
#pragma once

#include "toy/toy.h"
#include "toy/vectors.h"

namespace deltasane::toy {

class Toy : public LanguageModel {
 public:
  Toy(std::unique_ptr<Checkpoint> checkpoint, const OpenOptions& options);

  const ModelCheckpoint& checkpoint() const override { return *checkpoint_; }
  std::string weight_type() const override { return "f32"; }
  uint64_t weight_bytes() const override { return weight_bytes_; }
  uint64_t read_bytes() const override { return weight_bytes_; }
  int64_t prefill_chunk() const override { return 96; }
  int64_t tile() const override { return 32; }

 protected:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override;

 private:
  struct Memory {
    const StatePart* part;
    Tensor<float> decay, query, key, value, out, tau;
  };
  struct Layer {
    const StatePart* inputs = nullptr;  // of the convolution
    Tensor<float> convolution;
    std::vector<Memory> memories;
    const StatePart* cache = nullptr;
    Tensor<float> cache_query, cache_key, cache_value, cache_out;
  };

  void run_sequence(const SequenceInput& one) const;
  Vector step(int32_t token, SequenceState& state, TauRecord* taus) const;  // x after all layers
  Vector convolve(const Layer& layer, const Vector& x, SequenceState& state) const;
  Vector recall(const Memory& memory, const Vector& u, SequenceState& state) const;
  Vector attend(const Layer& layer, const Vector& u, SequenceState& state) const;
  void neutralize(int64_t layer, const Vector& u, SequenceState& state, TauRecord* taus) const;
  void write_logits(const Vector& x, std::span<float> logits) const;

  std::unique_ptr<Checkpoint> checkpoint_;
  Tensor<float> embedding_, head_;
  std::vector<Layer> layers_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace deltasane::toy
