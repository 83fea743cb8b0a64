// States in a GPU's memory: shift (layer, 2, channel), then memory (layer, head, value, key).
//
// Memory that a state gives back is kept for the next one: giving memory back to CUDA would wait
// for all work. It is used in one queue only, or after waiting for the others: whoever changes a
// state waits for that, only copies are still being made when they are handed out.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model/state/sequence_state.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

class GpuStates : public std::enable_shared_from_this<GpuStates> {
 public:
  GpuStates(std::shared_ptr<const Gpu> gpu, const StateLayout& layout)
      : gpu_(std::move(gpu)), downloads_(gpu_->index()), layout_(layout) {}

  // The state's numbers here, from now on; they are copied first where they are not.
  float* numbers_of(SequenceState& state);
  int64_t shift_floats() const { return layout_.heads()[0].offset; }
  int64_t memory_floats() const { return layout_.floats() - shift_floats(); }

 private:
  class OnGpu;
  int64_t heads() const { return int64_t(layout_.heads().size()); }
  GpuTensor<float> take();
  void give_back(GpuTensor<float> numbers);

  std::shared_ptr<const Gpu> gpu_;
  Gpu downloads_;  // a queue of their own: who looks at a copy does not stop who reads on
  StateLayout layout_;
  std::mutex mutex_;
  std::vector<GpuTensor<float>> free_;
};

}  // namespace deltasane
