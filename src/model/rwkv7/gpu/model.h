// RWKV-7 for inference on a GPU: what rwkv7.h says, with weights, activations and states there.
//
// Matrices are bf16, or float where that is asked for; products of bf16 have float sums. The large ones
// may be quantized (kernel/matmul/quantized_cuda/), and are bf16 where they are multiplied. The
// residual stream, decay, tau, states and logits are float.
//
// Tokens of one sequence, or of a few at one position, are read in blocks that go through the layers
// in two queues: while the recurrence of a block waits for its own past, the products of the next
// one have the machine.
// Single tokens of one sequence, or of a few, go through kernels of their own (rwkv7_gpu_decode.h),
// those of more sequences through blocks with a row of each (rwkv7_gpu_many.h).
//
// One call at a time has the GPU; others wait.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/state/sequence_state.h"
#include "model/rwkv7/model.h"
#include "model/sane.h"
#include "model/tau_record.h"
#include "tensor/view.h"

namespace deltasane {

class Rwkv7OnGpu {
 public:
  struct Options {
    int gpu = 0;
    std::optional<kernel::WeightType> weights = {};  // not f16; none: bf16
    // Matrices that the file has quantized stay so; others become the type of its feed-forward's keys.
    bool stored_types = false;
  };
  static std::unique_ptr<Rwkv7OnGpu> open(const Rwkv7Checkpoint& checkpoint,
                                          const Rwkv7Shape& shape, const SaneUse& sane,
                                          const Options& options);
  virtual ~Rwkv7OnGpu() = default;

  virtual Tensor<float> allocate_logits(int64_t rows) const = 0;
  // As LanguageModel::forward; samplers of prompts draw on the host.
  virtual void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu,
                   const LanguageModel::Beside& beside) = 0;

  virtual kernel::WeightType weight_type() const = 0;
  virtual uint64_t weight_bytes() const = 0;
  virtual uint64_t read_bytes() const = 0;      // of the weights, for a token
  virtual uint64_t resident_bytes() const = 0;  // of the GPU's memory in use, by everybody
  virtual std::string gpu_name() const = 0;
};

}  // namespace deltasane
