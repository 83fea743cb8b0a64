// States in a GPU's memory: shift (layer, 2, channel), then memory (layer, head, value, key).
//
// Memory that a state gives back is kept for the next one: giving memory back to CUDA would wait
// for all work. It is used in one queue only, or after waiting for the others: whoever changes a
// state waits for that, only copies are still being made when they are handed out.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model/recurrent_state.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

class GpuStates : public std::enable_shared_from_this<GpuStates> {
 public:
  GpuStates(std::shared_ptr<const Gpu> gpu, const StateShape& shape)
      : gpu_(std::move(gpu)), downloads_(gpu_->index()), shape_(shape) {}

  // The state's numbers here, from now on; they are copied first where they are not.
  float* numbers_of(RecurrentState& state);
  int64_t shift_floats() const { return shape_.layers * 2 * shape_.channels; }
  int64_t memory_floats() const { return shape_.layers * shape_.channels * shape_.head_size; }

 private:
  class Mirror;
  int64_t heads() const { return shape_.layers * shape_.heads; }
  GpuTensor<float> take();
  void give_back(GpuTensor<float> numbers);

  std::shared_ptr<const Gpu> gpu_;
  Gpu downloads_;  // a queue of their own: who looks at a copy does not stop who reads on
  StateShape shape_;
  std::mutex mutex_;
  std::vector<GpuTensor<float>> free_;
};

}  // namespace deltasane
