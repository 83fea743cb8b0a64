// Sequences of several tokens on a GPU: they are read side by side, in blocks of up to
// gpu_block_tokens rows. Where one ends inside a block, the rows behind its end are computed and
// not used; blocks are cut so that there are few of them.
//
// Blocks alternate between two streams, and each layer of a block waits for the same layer of the
// block before: the recurrence of one overlaps with the matrix products of the other.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/rwkv7/gpu/alphas.h"
#include "model/rwkv7/gpu/executor.h"
#include "model/gpu/states.h"

namespace deltasane {

inline constexpr size_t gpu_prefill_sequences = 64;  // of a set, at most
inline constexpr int64_t gpu_tile = 16;  // blocks end on its multiples, so that the cut leaves no trace

// Cuts a batch into sets that are read side by side: at one phase of a tile (and of SANE's chunk),
// with losses or without, and all or none adaptive. The longest is a set's first.
using PrefillSet = std::vector<const SequenceInput*>;
enum class Lengths { equal, any };  // of a set's sequences
std::vector<PrefillSet> prefill_sets(std::span<const SequenceInput* const> sequences,
                                     int64_t chunk, Lengths lengths);

template <class Real>
class GpuPrefill {
 public:
  GpuPrefill(std::shared_ptr<const Gpu> gpu, const Rwkv7GpuWeights<Real>& weights,
             const GpuSane& sane, int64_t vocabulary, std::shared_ptr<GpuStates> states,
             GpuAlphas& alphas);
  ~GpuPrefill();

  // What the GPU's kernels take.
  Lengths lengths() const;
  // One set. Waits for the results.
  void read(std::span<const SequenceInput* const> set);

 private:
  struct Stream;
  struct Reading;
  struct StateMemory;
  enum class Direction { gather, scatter };

  Stream& stream(size_t number);
  StateMemory packed_states(const Reading& reading);
  void move(const Reading& reading, const StateMemory& memory, Direction direction);
  void enqueue(Stream& stream, const Stream* before, int64_t from, int64_t tokens,
               const StateMemory& memory, const Reading& reading);
  void enqueue_losses(Stream& stream, int64_t rows);
  void take_all_logits(Stream& stream, const Reading& reading);
  void keep_last_rows(Stream& stream, const Reading& reading);
  void take_last_logits(const Reading& reading);
  void finish(Stream& stream, const Reading& reading);

  std::shared_ptr<const Gpu> gpu_;
  const Rwkv7GpuWeights<Real>& weights_;
  GpuSane sane_;
  int64_t vocabulary_;
  std::shared_ptr<GpuStates> states_;
  GpuAlphas& alphas_;
  std::vector<std::unique_ptr<Stream>> streams_;
  GpuTensor<float> packed_;  // the states of several sequences
  GpuTensor<float> last_rows_;  // (gpu_prefill_sequences, C), of a set's sequences
};

}  // namespace deltasane
