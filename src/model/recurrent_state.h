// What a delta-rule model remembers of one sequence: a value that can be copied, kept and resumed.
//
// Its size does not depend on how much has been read. A state belongs to the model that made it.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace deltasane {

struct StateShape {
  int64_t layers = 0, channels = 0, heads = 0, head_size = 0;
  friend bool operator==(const StateShape&, const StateShape&) = default;
};

struct RecurrentState {
  StateShape shape;
  Tensor<float> shift;   // (layer, 2, channel): the last token's inputs of time mix and channel mix
  Tensor<float> memory;  // (layer, head, value, key)
  int64_t position = 0;  // tokens read since the beginning of the stream

  RecurrentState() = default;
  explicit RecurrentState(const StateShape& s)  // nothing read yet: all zero
      : shape(s),
        shift({s.layers, 2, s.channels}),
        memory({s.layers, s.heads, s.head_size, s.head_size}) {}

  RecurrentState clone() const {
    RecurrentState copy;
    copy.shape = shape;
    copy.shift = shift.clone();
    copy.memory = memory.clone();
    copy.position = position;
    return copy;
  }
};

}  // namespace deltasane
