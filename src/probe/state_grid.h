// |S| of all memories of a state as one grid, to be drawn: layers that have a memory below each other,
// the heads of a layer side by side, each (value, key) at the top of its layer's band.
//
// Where heads are smaller than their band, or a band is narrower than the widest, values are NaN.
#pragma once

#include <cstdint>
#include <vector>

#include "model/state/sequence_state.h"

namespace deltasane::probe {

struct StateGrid {
  struct Band {
    int64_t layer, row, rows;
  };
  struct Block {  // of one head of the layout
    int64_t row, column;
  };

  int64_t rows = 0, columns = 0;
  std::vector<Band> bands;    // from the top
  std::vector<Block> blocks;  // by head of the layout
  bool is_regular = false;    // every layer has a band, and all heads are of one shape
  std::vector<float> values;  // (row, column)
};

StateGrid grid_of(const SequenceState& state);

}  // namespace deltasane::probe
