// One token for each of several sequences, and the next one of each picked by its sampler.
//
// On a GPU tokens are picked there, and only they come back; everywhere else from the logits. Both
// follow the same steps (kernel/sampler/README.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "infer/sampler.h"
#include "model/rwkv7/model.h"

namespace deltasane {

struct SteppedSequence {
  int32_t token = 0;  // to read
  RecurrentState* state = nullptr;
  Sampler* sampler = nullptr;   // null: nobody wants its next token
  std::optional<int32_t> next;  // none where the logits hold a NaN or an infinity
};

class BatchStep {
 public:
  BatchStep(const Rwkv7& model, const kernel::Cpu& cpu) : model_(model), cpu_(cpu) {}

  void step(std::span<SteppedSequence> rows);

 private:
  bool pick_on_gpu(std::span<SteppedSequence> rows);

  const Rwkv7& model_;
  kernel::Cpu cpu_;
  std::vector<int32_t> tokens_;
  std::vector<RecurrentState*> states_;
  Tensor<float> logits_;
};

}  // namespace deltasane
