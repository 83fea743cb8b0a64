// What a delta-rule model remembers of one sequence: a value that can be copied, kept and resumed.
//
// Its size does not depend on how much has been read. A state belongs to the model that made it.
//
// A model on a device keeps the numbers there (StateMirror) and brings them here when somebody
// looks: then both copies are the same. Whoever changes them here loses the copy on the device.
// Looking may change what is kept, so two threads must not look at one state for the first time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace deltasane {

struct StateShape {
  int64_t layers = 0, channels = 0, heads = 0, head_size = 0;
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

// The numbers of a state in a device's memory.
class StateMirror {
 public:
  struct Magnitudes {
    float memory = 0, shift = 0;  // the largest |value|; infinity where one is not finite
  };
  virtual ~StateMirror() = default;
  virtual std::unique_ptr<StateMirror> clone() const = 0;
  virtual void download(std::span<float> shift, std::span<float> memory) const = 0;
  virtual Magnitudes largest() const = 0;
  virtual std::vector<double> head_norms() const = 0;  // (layer, head), Frobenius
};

class RecurrentState {
 public:
  StateShape shape;
  int64_t position = 0;  // tokens read since the beginning of the stream
  // (layer, head): SANE's alpha for this sequence from here on; empty: the model's for all
  std::vector<float> alphas;

  RecurrentState() = default;
  explicit RecurrentState(const StateShape& s) : shape(s) { allocate(); }  // all zero

  // (layer, 2, channel): the last token's inputs of time mix and channel mix
  const Tensor<float>& shift() const { return here().shift_; }
  // (layer, head, value, key)
  const Tensor<float>& memory() const { return here().memory_; }
  Tensor<float>& mutable_shift() { return changed_here().shift_; }
  Tensor<float>& mutable_memory() { return changed_here().memory_; }

  RecurrentState clone() const {
    RecurrentState copy;
    copy.shape = shape;
    copy.position = position;
    copy.alphas = alphas;
    if (mirror_) copy.mirror_ = mirror_->clone();
    copy.is_here_ = is_here_ && !mirror_;
    if (copy.is_here_) copy.shift_ = shift_.clone(), copy.memory_ = memory_.clone();
    return copy;
  }

  // For models on a device. A mirror has what the state has.
  StateMirror* mirror() const { return mirror_.get(); }
  void keep_mirror(std::unique_ptr<StateMirror> mirror) { mirror_ = std::move(mirror); }
  void changed_on_device() {
    require(mirror_ != nullptr, "what changed on a device is there");
    is_here_ = false;
  }
  // Without bringing the numbers here; absent where they are.
  std::optional<StateMirror::Magnitudes> largest_on_device() const {
    if (is_here_) return std::nullopt;
    return mirror_->largest();
  }
  std::optional<std::vector<double>> head_norms_on_device() const {
    if (is_here_) return std::nullopt;
    return mirror_->head_norms();
  }

 private:
  void allocate() const {
    shift_ = Tensor<float>({shape.layers, 2, shape.channels});
    memory_ = Tensor<float>({shape.layers, shape.heads, shape.head_size, shape.head_size});
  }
  const RecurrentState& here() const {
    if (!is_here_) {
      if (memory_.elements() == 0) allocate();
      mirror_->download(shift_.span(), memory_.span());
      is_here_ = true;
    }
    return *this;
  }
  RecurrentState& changed_here() {
    here();
    mirror_.reset();
    return *this;
  }

  mutable Tensor<float> shift_, memory_;
  mutable bool is_here_ = true;
  std::unique_ptr<StateMirror> mirror_;
};

}  // namespace deltasane
