// States in a GPU's memory: the parts of fixed size as in the layout, those of the recurrence last,
// and the caches, all of a state in one allocation: (cache, capacity, row).
//
// Memory that a state gives back is kept for the next one: giving memory back to CUDA would wait
// for all work. It is used in one queue only, or after waiting for the others: whoever changes a
// state waits for that, only copies are still being made when they are handed out.
//
// Caches grow as tokens come. With a window they are rings: the token at position p has the row p,
// or, from `fixed` on, fixed + (p - fixed) % ring.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "model/state/sequence_state.h"
#include "tensor/cuda/gpu_tensor.h"

namespace deltasane {

// How caches are stored.
struct GpuCacheStorage {
  enum class Numbers { f32, bf16 };
  Numbers numbers = Numbers::f32;
  int64_t window = 0;           // tokens; 0: all rows are kept
  int64_t fixed = 0, ring = 0;  // ring 0: none
  uint64_t number_bytes() const { return numbers == Numbers::bf16 ? 2 : 4; }
};

class GpuStates : public std::enable_shared_from_this<GpuStates> {
 public:
  GpuStates(std::shared_ptr<const Gpu> gpu, const StateLayout& layout,
            const GpuCacheStorage& storage = {})
      : gpu_(std::move(gpu)), downloads_(gpu_->index()), layout_(layout), storage_(storage) {}

  // The state's numbers here, from now on; they are copied first where they are not.
  float* numbers_of(SequenceState& state);
  // Its caches, with room for `tokens` more, which from now on count as read.
  struct Caches {
    void* data = nullptr;
    int64_t capacity = 0;
  };
  Caches append(SequenceState& state, int64_t tokens);

  int64_t shift_floats() const { return heads() ? layout_.heads()[0].offset : layout_.floats(); }
  int64_t memory_floats() const { return layout_.floats() - shift_floats(); }

 private:
  class OnGpu;
  int64_t heads() const { return int64_t(layout_.heads().size()); }
  OnGpu& on_gpu(SequenceState& state);
  GpuTensor<float> take();
  void give_back(GpuTensor<float> numbers);

  std::shared_ptr<const Gpu> gpu_;
  Gpu downloads_;  // a queue of their own: who looks at a copy does not stop who reads on
  StateLayout layout_;
  GpuCacheStorage storage_;
  std::mutex mutex_;
  std::vector<GpuTensor<float>> free_;
};

}  // namespace deltasane
